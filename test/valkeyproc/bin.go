package valkeyproc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Bin is the folder with valkey-server and valkey-cli.
var Bin = sync.OnceValues(func() (string, error) {
	dir := os.Getenv("VALKEY_BIN")
	if dir == "" {
		var err error
		if dir, err = binFromBed("9"); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "valkey-server")); err != nil {
		return "", fmt.Errorf("no valkey-server to test with: %w", err)
	}
	return dir, nil
})

// OldBin is the folder of a server below the operator's floor, 8.x.
var OldBin = sync.OnceValues(func() (string, error) { return binFromBed("8") })

func binFromBed(series string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(filepath.Join(root, "test/bed/bed"), "valkey", series)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("no Valkey %s to test with: test/bed/bed valkey %s: %w\n%s", series, series, err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// moduleRoot is the folder of go.mod; go test runs tests somewhere below it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in or above the working directory")
		}
		dir = parent
	}
}

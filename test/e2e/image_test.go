package e2e

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// The operator's image, as the bed builds it, is one static program and the two files that name its user, and runs as that
// user: there is no shell, and nothing else that could be run.
func TestTheOperatorsImageHasOneProgramAndNoShell(t *testing.T) {
	t.Parallel()
	bed, err := lab.Open()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(filepath.Join(bed.Run, "images/operator"))
	if err != nil {
		t.Fatal(err)
	}
	blobs := untar(t, readFile(t, strings.TrimSpace(string(archive))))
	type descriptor struct{ Digest string }
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var image struct {
		Config struct {
			User       string
			Entrypoint []string
			Cmd, Env   []string
		}
	}
	blob := func(d descriptor) []byte { return blobs["blobs/"+strings.Replace(d.Digest, ":", "/", 1)] }
	decode(t, blobs["index.json"], &index)
	decode(t, blob(index.Manifests[0]), &manifest)
	decode(t, blob(manifest.Config), &image)
	if c := image.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/valkey-operator"}) || len(c.Cmd)+len(c.Env) > 0 {
		t.Errorf("the image runs %+v", c)
	}
	files := map[string][]byte{}
	for _, layer := range manifest.Layers {
		maps.Copy(files, untar(t, blob(layer)))
	}
	if diff := cmp.Diff([]string{"etc/group", "etc/passwd", "valkey-operator"}, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files of the image (-want +got):\n%s", diff)
	}
	program, err := elf.NewFile(bytes.NewReader(files["valkey-operator"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("the program is not static: it has a part %s", part.Type)
		}
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

// untar gives everything in an archive that is no directory, links included.
func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for from := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeDir {
			continue
		}
		if out[path.Clean(header.Name)], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
}

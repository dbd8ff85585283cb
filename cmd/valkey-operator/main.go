// Command valkey-operator runs Valkey clusters on Kubernetes: it watches ValkeyClusters and makes
// what they describe.
//
// Exit codes: 0 asked to end, 1 something failed while running, 2 wrong flags, files or
// environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := command(os.LookupEnv, run).ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "valkey-operator: "+oneLine(err.Error()))
	var wrong *usageError
	if errors.As(err, &wrong) {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

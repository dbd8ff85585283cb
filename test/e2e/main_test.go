// Package e2e proves the contract on real kubelets and real servers: see the package lab for how.
//
//	test/bed/bed up && test/bed/bed images
//	go test -count=1 -v -exec 'test/bed/bed exec hub' ./test/e2e/...
//
// Tests that touch what all share (Kubernetes nodes, the Deployment) do not run in parallel: go
// test runs them first. All others have a namespace and an operator of their own.
package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

func TestMain(m *testing.M) {
	if _, err := lab.Open(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: the test bed cannot be used: %v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

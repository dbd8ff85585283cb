package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mediocregopher/radix/v4/resp/resp3"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// ServerError is an error that the server itself answered: it is alive, it
// understood, it refused.
type ServerError struct {
	// Command is what was asked, without arguments that could be secret or long.
	Command string
	// Text is the answer, verbatim: "ERR Unknown node 07c3…".
	Text string
}

func (e *ServerError) Error() string { return e.Command + ": server answered " + e.Text }

// Code is the first word of the answer: ERR, NOAUTH, NOPERM, WRONGPASS, LOADING, …
func (e *ServerError) Code() string {
	code, _, _ := strings.Cut(e.Text, " ")
	return code
}

// IdentityError is that another server answers at the address: nothing was
// sent to it but the question who it is.
type IdentityError struct {
	Addr      string
	Want, Got topology.NodeID
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("%s is server %s now, not %s: nothing was sent", e.Addr, e.Got, e.Want)
}

// UnreachableError is that no answer came. The command may have been carried
// out all the same, if it was sent at all.
type UnreachableError struct {
	Addr    string
	Command string
	Err     error
}

func (e *UnreachableError) Error() string { return e.Command + " at " + e.Addr + ": " + e.Err.Error() }

func (e *UnreachableError) Unwrap() error { return e.Err }

// Timeout says whether time ran out, as against a refused or broken connection.
func (e *UnreachableError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }

// serverError is the server's own answer in err, if that is what err is.
func serverError(err error) (text string, ok bool) {
	var simple resp3.SimpleError
	if errors.As(err, &simple) {
		return simple.S, true
	}
	var blob resp3.BlobError
	if errors.As(err, &blob) {
		return string(blob.B), true
	}
	return "", false
}

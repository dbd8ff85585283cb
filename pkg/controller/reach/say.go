package reach

import (
	"context"
	"crypto/x509"
	"errors"
	"os"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
)

// Say is a failure in words that are the same each time: what goes into a condition must not
// change by itself, and a network's errors have the number of a port in them.
func Say(err error) string {
	var answered *client.ServerError
	var other *client.IdentityError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var system *os.SyscallError
	switch {
	case errors.As(err, &answered):
		return answered.Error()
	case errors.As(err, &other):
		return "another server answers at its address"
	case errors.As(err, &authority):
		return "its certificate is signed by an authority that is not in the bundle"
	case errors.As(err, &name):
		return "its certificate is for another name"
	case errors.As(err, &invalid):
		return "its certificate is refused: " + invalid.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &system):
		return system.Syscall + ": " + system.Err.Error()
	}
	return "no answer"
}

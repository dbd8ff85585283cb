package client

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp"
	"github.com/mediocregopher/radix/v4/resp/resp3"
)

// conn is an authenticated connection to whoever is at an address. It is used
// by one caller at a time.
type conn struct {
	addr  string
	radix radix.Conn
	// reused: it has been in the pool, so that its other end may be gone since.
	reused bool
	idle   time.Time
}

// reply is one answer of a pipeline: a value or the server's own error.
type reply struct {
	value any
	err   string
}

// UnmarshalRESP takes any well-formed answer, so that an unexpected one costs
// neither the connection nor the answers behind it.
func (r *reply) UnmarshalRESP(br resp.BufferedReader, o *resp.Opts) error {
	err := resp3.Unmarshal(br, &r.value, o)
	if text, ok := serverError(err); ok {
		r.err = text
		return nil
	}
	return err
}

func (r *reply) text() string {
	switch v := r.value.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// command is one command with its arguments.
type command []string

// String names the command and leaves out what may be secret, long or many:
// all but the subcommand.
func (c command) String() string {
	switch {
	case len(c) > 1 && (c[0] == "CLUSTER" || c[0] == "ACL" || c[0] == "CONFIG" || c[0] == "FUNCTION"):
		return c[0] + " " + c[1]
	case len(c) > 0:
		return c[0]
	}
	return ""
}

// do sends the commands at once and reads one answer each. An error means
// that the connection is closed; a server's own errors are in the replies.
// ctx must have a deadline.
func (c *conn) do(ctx context.Context, commands ...command) ([]reply, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.radix.Close() })
	defer stop()
	replies := make([]reply, len(commands))
	pipeline := radix.NewPipeline()
	for i, cmd := range commands {
		pipeline.Append(radix.Cmd(&replies[i], cmd[0], cmd[1:]...))
	}
	if err := c.radix.Do(ctx, pipeline); err != nil {
		_ = c.radix.Close()
		return nil, &UnreachableError{Addr: c.addr, Command: commands[0].String(), Err: orTimeout(ctx, err)}
	}
	return replies, nil
}

// orTimeout names the deadline as the cause of an error, where closing the
// connection at the deadline has made another of it.
func orTimeout(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil && !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// dial connects and authenticates. ctx must have a deadline.
func (d Dialer) dial(ctx context.Context, addr string) (*conn, error) {
	raw := &closable{}
	stop := context.AfterFunc(ctx, raw.close)
	defer stop()
	connect := (&net.Dialer{}).DialContext
	if d.TLS != nil {
		connect = (&tls.Dialer{Config: d.TLS}).DialContext
	}
	// radix sends AUTH itself while it dials, and gives up if that is refused.
	r, err := radix.Dialer{
		AuthUser: d.user(), AuthPass: d.Password,
		NetDialer: dialFunc(func(ctx context.Context, kind, addr string) (net.Conn, error) {
			c, err := connect(ctx, kind, addr)
			if err == nil {
				raw.set(c)
			}
			return c, err
		}),
	}.Dial(ctx, "tcp", addr)
	if text, ok := serverError(err); ok {
		return nil, &ServerError{Command: "AUTH " + d.user(), Text: text}
	}
	if err != nil {
		return nil, &UnreachableError{Addr: addr, Command: "dial", Err: orTimeout(ctx, err)}
	}
	return &conn{addr: addr, radix: r}, nil
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func (f dialFunc) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return f(ctx, network, addr)
}

// closable closes a connection that may not be there yet.
type closable struct {
	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

func (c *closable) set(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = conn
	if c.closed {
		_ = conn.Close()
	}
}

func (c *closable) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
}

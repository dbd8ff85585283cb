package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// DefaultTimeout bounds one call, and one look at all servers of a cluster.
const DefaultTimeout = 3 * time.Second

// Dialer holds what is needed to talk to the servers of one cluster. It is a value;
// copies share the pool.
type Dialer struct {
	// Password of _momento_operator.
	Password string
	// TLS is nil for a cluster without TLS; see TLSConfig.
	TLS *tls.Config
	// Timeout bounds each call with all its round trips, dialling included; 0
	// is DefaultTimeout. A shorter deadline of the caller's context wins.
	Timeout time.Duration
	// Pool may be nil: then each call dials.
	Pool *Pool
}

func (Dialer) user() string { return acl.OperatorUser }

func (d Dialer) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	timeout := d.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// ask sends one round trip of commands that change nothing, and gives the
// connection they were answered on: the caller puts it back or goes on with it. A
// connection from the pool may turn out dead; the commands are then sent
// anew on a fresh one, once.
func (d Dialer) ask(ctx context.Context, addr string, commands ...command) (*conn, []reply, error) {
	if c := d.Pool.take(d.key(addr)); c != nil {
		replies, err := c.do(ctx, commands...)
		if err == nil {
			return c, replies, nil
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
	}
	c, err := d.dial(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	replies, err := c.do(ctx, commands...)
	if err != nil {
		return nil, nil, err
	}
	return c, replies, nil
}

// look is what every Look sends. The sections keep the answer to a few
// kilobytes; servers that lack one leave it out.
var look = []command{
	{"CLUSTER", "NODES"},
	{"CLUSTER", "INFO"},
	{"INFO", "server", "replication", "persistence", "memory", "keyspace", "tls"},
	{"CLUSTER", "GETSLOTMIGRATIONS"},
}

// Look asks a server ("ip:port") in one round trip for all that it knows. It
// works while the server loads its data, and then has no migrations.
func (d Dialer) Look(ctx context.Context, addr string) (topology.Server, error) {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	c, replies, err := d.ask(ctx, addr, look...)
	if err != nil {
		return topology.Server{}, err
	}
	d.Pool.put(d.key(addr), c)
	for i, r := range replies {
		e := &ServerError{Command: look[i].String(), Text: r.err}
		// The last one does not exist before 9.0, and not while loading.
		if known := i == len(look)-1 && e.Code() != "NOPERM"; r.err != "" && !known {
			return topology.Server{}, e
		}
	}
	s, err := topology.ParseServer(topology.Replies{
		Nodes: replies[0].text(), ClusterInfo: replies[1].text(), Info: replies[2].text(),
		Migrations: replies[3].value,
	})
	if err != nil {
		return topology.Server{}, &UnreachableError{Addr: addr, Command: "look", Err: err}
	}
	return s, nil
}

// Sight is one server's answer to LookAll: Server, or Err and the zero Server.
type Sight struct {
	Server topology.Server
	Err    error
}

// LookAll looks at all addresses at once and gives the answers in their order. It
// ends after Timeout at the latest: who is silent costs the others nothing.
func (d Dialer) LookAll(ctx context.Context, addrs []string) []Sight {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	sights := make([]Sight, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() { sights[i].Server, sights[i].Err = d.Look(ctx, addr) })
	}
	all.Wait()
	return sights
}

// Certificate is what the server at an address shows in a fresh handshake: a
// reloaded certificate is in force when it is seen here, not when the
// reload was sent.
func (d Dialer) Certificate(ctx context.Context, addr string) (*x509.Certificate, error) {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	if d.TLS == nil {
		return nil, &UnreachableError{Addr: addr, Command: "TLS handshake", Err: errors.New("this cluster has no TLS")}
	}
	c, err := (&tls.Dialer{Config: d.TLS}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, &UnreachableError{Addr: addr, Command: "TLS handshake", Err: err}
	}
	defer func() { _ = c.Close() }()
	shown := c.(*tls.Conn).ConnectionState().PeerCertificates
	if len(shown) == 0 {
		return nil, &UnreachableError{Addr: addr, Command: "TLS handshake", Err: errors.New("no certificate was shown")}
	}
	return shown[0], nil
}

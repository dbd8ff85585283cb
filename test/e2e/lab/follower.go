package lab

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mediocregopher/radix/v4"
	"github.com/mediocregopher/radix/v4/resp/resp3"
)

// patience is how long a follower waits for one server before it asks another.
const patience = 200 * time.Millisecond

// A follower is as quick as a client can be: one connection to the owner of one slot; MOVED is followed
// at once, and any other pod is asked as soon as the owner does not answer. So the time without
// writes that it sees is that of the servers, not of a client library.
type follower struct {
	pods   *pods
	dialer radix.Dialer
	addr   string
	conn   radix.Conn
}

// pods are the addresses of a cluster's pods, read anew every 250 ms, so that no follower waits for the API server.
type pods struct {
	cluster *Cluster
	addrs   atomic.Pointer[[]string]
	turn    atomic.Int64
}

func (p *pods) refresh(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if addrs, err := p.cluster.addresses(); err == nil && len(addrs) > 0 {
			p.addrs.Store(&addrs)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (p *pods) next() string {
	addrs := *p.addrs.Load()
	return addrs[int(p.turn.Add(1))%len(addrs)]
}

func newFollower(p *pods, config *tls.Config) *follower {
	f := &follower{pods: p, dialer: radix.Dialer{AuthUser: p.cluster.User.Name, AuthPass: p.cluster.User.Password}}
	f.dialer.NetDialer = &net.Dialer{Timeout: patience}
	if config != nil {
		f.dialer.NetDialer = &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: config}
	}
	return f
}

// set writes one key, over as many redirects as one change of owners can cause.
func (f *follower) set(ctx context.Context, key, value string) error {
	var err error
	for range 3 {
		if err = f.try(ctx, key, value); err == nil {
			return nil
		}
		f.close()
		f.addr = ""
		var answer resp3.SimpleError
		if !errors.As(err, &answer) {
			return err
		}
		words := strings.Fields(answer.S)
		if len(words) != 3 || words[0] != "MOVED" {
			return err
		}
		f.addr = words[2]
	}
	return err
}

func (f *follower) try(ctx context.Context, key, value string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if f.conn == nil {
		if f.addr == "" {
			f.addr = f.pods.next()
		}
		conn, err := f.dialer.Dial(ctx, "tcp", f.addr)
		if err != nil {
			return err
		}
		f.conn = conn
	}
	return f.conn.Do(ctx, radix.Cmd(nil, "SET", key, value))
}

func (f *follower) close() {
	if f.conn != nil {
		_ = f.conn.Close() // it has failed already
		f.conn = nil
	}
}

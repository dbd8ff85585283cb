package client

import (
	"crypto/sha256"
	"sync"
	"time"
)

// idleFor is how long a connection may wait for its next use. An operator looks
// every few seconds; what waits longer belongs to a server that is gone.
const idleFor = time.Minute

// Pool keeps one idle connection an address, so that a look at a server costs
// one round trip and no TLS handshake. It is a cache: losing it costs time only. A
// connection is bound to the process it was made to, not to its address, and
// who it is is asked again before each change. The zero Pool is ready, a
// nil *Pool keeps nothing.
type Pool struct {
	mu   sync.Mutex
	idle map[poolKey]*conn
}

// poolKey keeps apart what must not be mixed: connections with other
// credentials, or verified for another name.
type poolKey struct {
	addr       string
	password   [sha256.Size]byte
	tls        bool
	serverName string
}

func (d Dialer) key(addr string) poolKey {
	k := poolKey{addr: addr, password: sha256.Sum256([]byte(d.user() + "\n" + d.Password)), tls: d.TLS != nil}
	if d.TLS != nil {
		k.serverName = d.TLS.ServerName
	}
	return k
}

// take gives the idle connection of the key, or nil.
func (p *Pool) take(key poolKey) *conn {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.idle[key]
	delete(p.idle, key)
	return c
}

// put keeps a working connection and closes what it replaces and what has
// waited too long.
func (p *Pool) put(key poolKey, c *conn) {
	now := time.Now()
	var closing []*conn
	if p == nil {
		closing = append(closing, c)
	} else {
		p.mu.Lock()
		if p.idle == nil {
			p.idle = map[poolKey]*conn{}
		}
		if old := p.idle[key]; old != nil {
			closing = append(closing, old)
		}
		c.reused, c.idle = true, now
		p.idle[key] = c
		for k, other := range p.idle {
			if now.Sub(other.idle) > idleFor {
				closing = append(closing, other)
				delete(p.idle, k)
			}
		}
		p.mu.Unlock()
	}
	for _, c := range closing {
		_ = c.radix.Close()
	}
}

// Close closes every idle connection. The pool may be used again.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		_ = c.radix.Close()
	}
}

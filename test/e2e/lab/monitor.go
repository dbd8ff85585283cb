package lab

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Monitor records every command that the servers of a cluster are sent.
type Monitor struct {
	mu    sync.Mutex
	lines []string
	conns []net.Conn
	done  sync.WaitGroup
}

// Monitor starts MONITOR on every server, as the cluster's User.
func (c *Cluster) Monitor() *Monitor {
	c.T.Helper()
	m := &Monitor{}
	c.T.Cleanup(m.close)
	for _, addr := range c.Addresses() {
		conn, err := c.dial(addr)
		if err != nil {
			c.T.Fatalf("monitor %s: %v", addr, err)
		}
		m.conns = append(m.conns, conn)
		lines := bufio.NewScanner(conn)
		commands := []string{"MONITOR"}
		if c.User.Name != "" {
			commands = []string{fmt.Sprintf("AUTH %q %q", c.User.Name, c.User.Password), "MONITOR"}
		}
		for _, command := range commands {
			if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
				c.T.Fatalf("monitor %s: %v", addr, err)
			}
			if !lines.Scan() || lines.Text() != "+OK" {
				c.T.Fatalf("monitor %s: %q", addr, lines.Text())
			}
		}
		m.done.Go(func() {
			for lines.Scan() {
				m.mu.Lock()
				m.lines = append(m.lines, addr+" "+lines.Text())
				m.mu.Unlock()
			}
		})
	}
	return m
}

func (m *Monitor) close() {
	for _, conn := range m.conns {
		_ = conn.SetDeadline(time.Now())
		_ = conn.Close()
	}
	m.done.Wait()
}

// Commands counts what was sent from other processes, by the upper-case command with its subcommand. What a server sends itself or its
// replicas (PING, REPLCONF, and writes) is left out by the address: only clients have one.
func (m *Monitor) Commands() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]int{}
	for _, line := range m.lines {
		_, rest, ok := strings.Cut(line, "] ")
		if !ok || strings.Contains(line, " lua]") {
			continue
		}
		words := strings.Split(rest, `" "`)
		name := strings.ToUpper(strings.Trim(words[0], `"`))
		if len(words) > 1 && (name == "CLUSTER" || name == "ACL" || name == "CONFIG" || name == "CLIENT" || name == "FUNCTION") {
			name += " " + strings.ToUpper(strings.Trim(words[1], `"`))
		}
		out[name]++
	}
	return out
}

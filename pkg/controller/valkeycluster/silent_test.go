package valkeycluster

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

// A pass over 100 real servers when all answer, and when ten do not: five are stopped, so that the kernel takes
// the connection and nothing comes back; at five the very first packet is dropped. The API server is the fake one.
func BenchmarkPassOver100Servers(b *testing.B) {
	var servers []*valkeyproc.Server
	w := newBench(b, 50, 1)
	w.launch = func() string {
		s := valkeyproc.Start(b, 1, valkeyproc.Options{})[0]
		servers = append(servers, s)
		return s.IP
	}
	pool := &client.Pool{}
	defer pool.Close()
	w.options.Connect = func(Access) (Servers, error) {
		return Dialing(pool)(Access{Password: valkeyproc.OperatorPassword})
	}
	w.restart()
	for begin := time.Now(); w.lastErr != nil || w.last.RequeueAfter != idleRecheck; w.step() {
		if time.Since(begin) > 5*time.Minute {
			b.Fatalf("never formed: last action %+v, error %v", w.cluster().Status.LastAction, w.lastErr)
		}
		time.Sleep(20 * time.Millisecond)
	}
	passes := func(b *testing.B) {
		for b.Loop() {
			w.refresh() // a pass that knows of writes which its cache has not seen ends early
			if w.pass(); w.lastErr != nil {
				b.Fatal(w.lastErr)
			}
		}
	}
	b.Run("all answer", passes)
	for i, s := range servers[:10] {
		if i%2 == 0 {
			s.Pause(b)
		} else {
			s.Kill(b)
			deafen(b, s.IP)
		}
	}
	b.Run("ten are silent", passes)
}

// deafen makes the port of a dead server drop what comes: its listener's queue is full.
func deafen(b *testing.B, ip string) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = syscall.Close(fd) })
	at := &syscall.SockaddrInet4{Port: valkeyproc.Port, Addr: [4]byte(net.ParseIP(ip).To4())}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		b.Fatal(err)
	}
	if err := syscall.Bind(fd, at); err != nil {
		b.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		b.Fatal(err)
	}
	for {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip, "6379"), 200*time.Millisecond)
		if err != nil {
			return // full
		}
		b.Cleanup(func() { _ = conn.Close() })
	}
}

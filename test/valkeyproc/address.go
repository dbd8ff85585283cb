package valkeyproc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// address takes one of 127.0.1.2 … 254 for this test, until it has ended. The lock
// on a file makes it ours alone, among all test processes of the machine; the
// kernel drops it if this process is killed.
func address(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), "valkeyproc")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for last := 2; last < 255; last++ {
		ip := fmt.Sprintf("127.0.1.%d", last)
		f, err := os.OpenFile(filepath.Join(dir, ip), os.O_CREATE|os.O_RDWR, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && isFree(ip) {
			t.Cleanup(func() { _ = f.Close() })
			return ip
		}
		_ = f.Close()
	}
	t.Fatal("no address of 127.0.1.0/24 is free")
	return ""
}

// isFree tries the ports: something that is not ours may listen there.
func isFree(ip string) bool {
	for _, port := range []int{Port, BusPort} {
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", ip, port))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}

package monitor

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A server that answers what it is asked first, and then shows what others sent.
func server(t *testing.T, shows string) net.Conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = there.Close() })
	go func() {
		asked := make([]byte, 256)
		for _, answer := range []string{"+OK\r\n", "+OK\r\n" + shows} {
			if _, err := there.Read(asked); err != nil {
				return
			}
			if _, err := there.Write([]byte(answer)); err != nil {
				return
			}
		}
		if strings.HasSuffix(shows, "\"end\"\r\n") {
			_ = there.Close()
		}
	}()
	return here
}

func TestEveryLineIsReadWholeOrTheFollowerSaysSo(t *testing.T) {
	f, err := Follow(server(t, "+1.5 [0 10.0.0.1:4711] \"CONFIG\" \"SET\" \"a\\\"b\\x00\\r\\n\"\r\n+1.6 [3 [::1]:1] \"ping\"\r\n"), "u", "p")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := f.Stop()
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{"10.0.0.1:4711", []string{"CONFIG", "SET", "a\"b\x00\r\n"}}, {"[::1]:1", []string{"ping"}}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	known := func(name string) bool { return name == "config|set" }
	if one, two := lines[0].Name(known), lines[1].Name(known); one != "config|set" || two != "ping" {
		t.Errorf("names are %s and %s", one, two)
	}
	for what, text := range map[string]string{"nonsense": "hello\r\n", "no command": "+1 [0 a:1] \r\n", "an open quote": "+1 [0 a:1] \"a\r\n", "the connection's end": "+1 [0 a:1] \"end\"\r\n"} {
		f, err := Follow(server(t, text), "u", "p")
		if err != nil {
			t.Fatal(err)
		}
		if lines, err := f.Stop(); err == nil {
			t.Errorf("%s: %v and no error", what, lines)
		}
	}
}

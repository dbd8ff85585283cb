package client

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a server that answers as it is told. Answers are raw RESP; one that is
// missing means silence, and "hang up" ends the connection.
type fake struct {
	addr string
	mu   sync.Mutex
	// answers by command in upper case, arguments included, or by its first word.
	answers map[string]string
	dials   int
	seen    []string
	open    []net.Conn
}

const hangUp = "hang up"

func newFake(t *testing.T, answers map[string]string) *fake {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{addr: l.Addr().String(), answers: map[string]string{"AUTH": "+OK\r\n"}}
	for command, answer := range answers {
		f.answers[command] = answer
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.dials++
			f.open = append(f.open, c)
			f.mu.Unlock()
			all.Go(func() { f.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.hangUpAll()
		all.Wait()
	})
	return f
}

func (f *fake) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		line := strings.Join(words, " ")
		f.mu.Lock()
		f.seen = append(f.seen, line)
		answer, ok := f.answers[line]
		if !ok {
			answer = f.answers[words[0]]
		}
		f.mu.Unlock()
		if answer == hangUp {
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

// readCommand reads a list of bulk strings, the only form that clients send.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in)
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		size, err := readLength(in)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		words[i] = string(b[:size])
	}
	return words, nil
}

func readLength(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func (f *fake) set(command, answer string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[command] = answer
}

// hangUpAll breaks the connections that are open now, as the death of a process does.
func (f *fake) hangUpAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.open {
		_ = c.Close()
	}
	f.open = nil
}

func (f *fake) dialled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials
}

// got counts the commands that began so.
func (f *fake) got(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, line := range f.seen {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

// healthy answers like a lone server called id.
func healthy(id string) map[string]string {
	return map[string]string{
		"CLUSTER NODES":             bulk(id + " 127.0.0.1:6379@16379 myself,master - 0 0 1 connected 0-5\n"),
		"CLUSTER INFO":              bulk("cluster_state:ok\r\n"),
		"CLUSTER MYID":              bulk(id),
		"CLUSTER GETSLOTMIGRATIONS": "*1\r\n*4\r\n" + bulk("name") + bulk("j1") + bulk("create_time") + ":7\r\n",
		"INFO":                      bulk("valkey_version:9.1.2\r\n"),
		"CLUSTER":                   "+OK\r\n",
	}
}

func dialer(t *testing.T) Dialer {
	t.Helper()
	pool := &Pool{}
	t.Cleanup(pool.Close)
	return Dialer{Password: "secret", Timeout: 300 * time.Millisecond, Pool: pool}
}

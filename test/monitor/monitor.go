// Package monitor follows what a Valkey server is sent, by MONITOR.
//
// MONITOR does not show everything: commands that the server flags "admin" or "skip_monitor" (COMMAND INFO) are hidden.
// Those are counted by INFO commandstats.
package monitor

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Line is one command that the server was sent.
type Line struct {
	// From is the address that it came from: "ip:port".
	From string
	Args []string
}

// Name is the command in the server's own words, "config|set", where isName knows that name, and else its first word.
func (l Line) Name(isName func(string) bool) string {
	name := strings.ToLower(l.Args[0])
	if len(l.Args) > 1 && isName(name+"|"+strings.ToLower(l.Args[1])) {
		return name + "|" + strings.ToLower(l.Args[1])
	}
	return name
}

// Follower collects lines.
type Follower struct {
	conn  net.Conn
	done  chan struct{}
	lines []Line
	err   error
}

// Follow logs in on a connection, which is the Follower's from then on, and follows the server until Stop. An empty user
// does not log in.
func Follow(conn net.Conn, user, password string) (*Follower, error) {
	f, from := &Follower{conn: conn, done: make(chan struct{})}, bufio.NewReader(conn)
	commands := [][]string{{"MONITOR"}}
	if user != "" {
		commands = [][]string{{"AUTH", user, password}, {"MONITOR"}}
	}
	for _, command := range commands {
		if err := send(conn, command); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if answer, err := from.ReadString('\n'); err != nil || answer != "+OK\r\n" {
			return nil, errors.Join(fmt.Errorf("%s: %q: %w", command[0], answer, err), conn.Close())
		}
	}
	go f.read(from)
	return f, nil
}

func send(conn net.Conn, args []string) error {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	_, err := conn.Write([]byte(text))
	return err
}

func (f *Follower) read(from *bufio.Reader) {
	defer close(f.done)
	for {
		text, err := from.ReadString('\n')
		if err != nil {
			f.err = err
			return
		}
		line, err := parse(strings.TrimSpace(text))
		if err != nil {
			f.err = err
			return
		}
		f.lines = append(f.lines, line)
	}
}

// Stop gives what was seen. It is an error if the Follower did not see all until now.
func (f *Follower) Stop() ([]Line, error) {
	// What the server has written already still comes.
	if err := f.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		return nil, err
	}
	<-f.done
	_ = f.conn.Close() // it was only read from
	if !errors.Is(f.err, os.ErrDeadlineExceeded) {
		return f.lines, fmt.Errorf("MONITOR at %s ended early: %w", f.conn.RemoteAddr(), f.err)
	}
	return f.lines, nil
}

// parse reads
//
//	+1700000000.123456 [0 10.0.0.1:4711] "CLUSTER" "NODES"
func parse(text string) (Line, error) {
	from, rest, ok := strings.Cut(text, "] ")
	_, from, bracket := strings.Cut(from, " [")
	_, from, number := strings.Cut(from, " ")
	l := Line{From: from}
	for rest != "" && ok {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			break
		}
		l.Args, rest = append(l.Args, arg), strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if !ok || !bracket || !number || rest != "" || len(l.Args) == 0 {
		return Line{}, fmt.Errorf("a line of MONITOR cannot be read: %q", text)
	}
	return l, nil
}

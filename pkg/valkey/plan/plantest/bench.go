package plantest

import (
	"fmt"
	"strconv"
	"strings"
)

// Servers is a bench to run server scripts on: the model, or real ones.
type Servers interface {
	Do(i int, verb string, args []string) error
	Views() string
	Synced(i int) bool
	Pass() // lets some time pass
}

// ServerScript is a list of commands to a few servers, with what must come of each.
type ServerScript struct {
	Title   string
	Servers int
	lines   []string
}

// ParseServerScripts reads scripts:
//
//	# what the script shows
//	servers 2
//	0 epoch 1            a command; it must be taken
//	0 epoch 2 refused    it must be refused
//	views                in the end, what follows must be what the servers see
//	  0 sees 0 1<0:5-9!  server 0 sees itself, and 1, a failed replica of 0 that owns slots 5 to 9
//	stays                so it must still be after some time
//	rest                 let three seconds pass: a server does not vote in its first two
//	synced 1             server 1 must come in sync with its primary
//	1 deaf               from now on server 1 hears nobody, until it `hears`
//
// An empty line ends a script.
func ParseServerScripts(text string) ([]ServerScript, error) {
	var out []ServerScript
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		if len(lines) < 3 {
			continue
		}
		s := ServerScript{Title: strings.TrimPrefix(lines[0], "# "), lines: lines[2:]}
		if _, err := fmt.Sscanf(lines[1], "servers %d", &s.Servers); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", s.Title, lines[1], err)
		}
		out = append(out, s)
	}
	return out, nil
}

// patience is how many times a bench may let time pass until its views are as expected.
const patience = 40

// Run gives the commands and checks what comes of them.
func (s ServerScript) Run(on Servers) error {
	for i := 0; i < len(s.lines); i++ {
		line := s.lines[i]
		switch {
		case line == "views" || line == "stays":
			var want strings.Builder
			for ; i+1 < len(s.lines) && strings.HasPrefix(s.lines[i+1], "  "); i++ {
				want.WriteString(strings.TrimSpace(s.lines[i+1]) + "\n")
			}
			if err := s.await(on, want.String(), line == "stays"); err != nil {
				return err
			}
		case line == "rest":
			for range 6 {
				on.Pass()
			}
		default:
			if err := s.command(on, strings.Fields(line)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s ServerScript) command(on Servers, words []string) error {
	line := strings.Join(words, " ")
	if len(words) == 2 && words[0] == "synced" {
		words[0], words[1] = words[1], words[0]
	}
	if len(words) < 2 {
		return fmt.Errorf("%q is no command", line)
	}
	i, err := strconv.Atoi(words[0])
	if err != nil || i < 0 || i >= s.Servers {
		return fmt.Errorf("%q: no server %q", line, words[0])
	}
	if words[1] == "synced" {
		for n := 0; !on.Synced(i); n++ {
			if n == patience {
				return fmt.Errorf("%d is not in sync", i)
			}
			on.Pass()
		}
		return nil
	}
	refused := words[len(words)-1] == "refused"
	if refused {
		words = words[:len(words)-1]
	}
	err = on.Do(i, words[1], words[2:])
	if refused != (err != nil) {
		return fmt.Errorf("%q: the answer is %v", line, err)
	}
	return nil
}

func (s ServerScript) await(on Servers, want string, steady bool) error {
	got := on.Views()
	for range patience {
		if steady == (got != want) {
			break
		}
		on.Pass()
		got = on.Views()
	}
	if got != want {
		return fmt.Errorf("the views are\n%sand should be\n%s", got, want)
	}
	return nil
}

// The model is a bench.
var _ Servers = (*Bare)(nil)

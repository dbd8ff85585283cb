package plantest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Bare is servers without Kubernetes, an operator, or bad luck: what the model says of servers is
// held against real ones with it.
type Bare struct{ m *Model }

// NewBare starts servers that know nobody.
func NewBare(n int) *Bare {
	b := &Bare{NewModel(1, Traits{Hosts: 1, SlowSync: 4, Remeets: true, ForgetSpreads: true})}
	b.m.unused = true
	for i := range n {
		b.m.startServer(fmt.Sprintf("10.0.0.%d", i+1), 0, "9.1.2").object = &object{pod: &pod{}}
	}
	b.Pass()
	return b
}

// Pass lets half a second pass.
func (b *Bare) Pass() {
	b.m.Step()
	b.m.Step()
}

// Do gives a server a command; an error is its refusal.
func (b *Bare) Do(i int, verb string, args []string) error {
	s := b.m.servers[i]
	switch verb {
	case "epoch":
		n, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return err
		}
		return s.setConfigEpoch(n)
	case "kill":
		s.die()
		return nil
	case "deaf", "hears":
		for _, o := range b.m.servers {
			if verb == "deaf" && o != s {
				b.m.cutPairs[pair(s.n, o.n)] = cut{time.Hour}
			} else {
				delete(b.m.cutPairs, pair(s.n, o.n))
			}
		}
		return nil
	case "cancel":
		s.cancelMigrations()
		return nil
	case "failover":
		return s.failover(strings.ToUpper(strings.Join(args, "")))
	case "key":
		s.data[0]++
		return nil
	case "addslots", "delslots", "migrate":
		return b.slots(s, verb, args)
	}
	return b.pair(s, verb, args)
}

func (b *Bare) slots(s *server, verb string, args []string) error {
	set, err := slot.Parse(args[0])
	if err != nil {
		return err
	}
	switch verb {
	case "addslots":
		return s.addSlots(set)
	case "delslots":
		s.delSlots(set)
		return nil
	}
	id, err := b.id(args[1])
	if err != nil {
		return err
	}
	return s.migrateSlots(set, id)
}

func (b *Bare) pair(s *server, verb string, args []string) error {
	id, err := b.id(args[0])
	if err != nil {
		return err
	}
	switch verb {
	case "meet":
		s.meet(b.m.byID(string(id)).ip)
		return nil
	case "replicate":
		return s.replicateFrom(id)
	case "forget":
		return s.forget(id)
	}
	return fmt.Errorf("no command %q", verb)
}

func (b *Bare) id(text string) (topology.NodeID, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= len(b.m.servers) {
		return "", fmt.Errorf("no server %q", text)
	}
	return b.m.servers[n].id, nil
}

// Synced says whether a replica has all that its primary has.
func (b *Bare) Synced(i int) bool { return b.m.servers[i].linkUp }

// Views are what the living servers see, by their numbers.
func (b *Bare) Views() string {
	numbers := map[topology.NodeID]int{}
	views := make([]*topology.View, len(b.m.servers))
	for i, s := range b.m.servers {
		numbers[s.id] = i
		if s.alive {
			v := s.words()
			views[i] = &v
		}
	}
	return ViewsText(views, numbers)
}

// ViewsText writes views with numbers for names, without what differs from run to run: a line for
// each server that answers, in order of the numbers.
func ViewsText(views []*topology.View, numbers map[topology.NodeID]int) string {
	var b strings.Builder
	for i, v := range views {
		if v == nil {
			continue
		}
		seen := make([]string, len(views))
		open := 0
		for _, p := range v.Peers {
			n, known := numbers[p.ID]
			if !known || p.Handshake {
				open++
				continue
			}
			seen[n] = peerWords(n, p, numbers)
		}
		fmt.Fprintf(&b, "%d sees", i)
		for _, text := range seen {
			if text != "" {
				b.WriteString(" " + text)
			}
		}
		if open > 0 {
			b.WriteString(" and shakes hands")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func peerWords(n int, p topology.Peer, numbers map[topology.NodeID]int) string {
	text := strconv.Itoa(n)
	if p.Role == topology.Replica {
		of := "?"
		if m, known := numbers[p.PrimaryID]; known {
			of = strconv.Itoa(m)
		}
		text += "<" + of
	}
	if len(p.Slots) > 0 {
		text += ":" + slot.Join(p.Slots, ",")
	}
	if p.Failed {
		text += "!"
	}
	return text
}

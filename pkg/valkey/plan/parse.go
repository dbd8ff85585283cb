package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// ParseWorld reads the text of a World. Its errors name the line.
func ParseWorld(text string) (World, error) {
	p := parser{
		world:  World{Target: Target{Failover: FailoverFast, NodeTimeout: usualTimeout}},
		common: map[topology.NodeID]topology.Peer{},
		sees:   map[NodeName]map[topology.NodeID]*topology.Peer{},
		lines:  map[NodeName][]words{},
	}
	for i, line := range strings.Split(text, "\n") {
		if err := p.line(line); err != nil {
			return World{}, fmt.Errorf("line %d: %w: %q", i+1, err, line)
		}
	}
	if err := p.finish(); err != nil {
		return World{}, err
	}
	return p.world, nil
}

type parser struct {
	world  World
	common map[topology.NodeID]topology.Peer
	sees   map[NodeName]map[topology.NodeID]*topology.Peer // nil Peer: does not know it
	lines  map[NodeName][]words                            // what is about a server, for the end
}

func (p *parser) line(line string) error {
	w, err := split(line)
	if err != nil || len(w.bare) == 0 {
		return err
	}
	kind := w.take()
	switch kind {
	case "target":
		p.world.Target, err = parseTarget(&w)
	case "creating":
		p.world.Observation.Creating = true
	case "formed":
		p.world.Observation.Formed = true
	case "node":
		err = p.node(&w)
	case "peer":
		var peer topology.Peer
		peer, err = parsePeer(&w)
		p.common[peer.ID] = peer
	case "sees":
		err = p.saw(&w)
	case "server", "follower", "job":
		name := NodeName(w.take())
		w.bare = append([]string{kind}, w.bare...)
		p.lines[name] = append(p.lines[name], w)
		return nil // read at the end, when the views are known
	case "attempt":
		a := Attempt{Kind: w.take(), Subject: w.take(), Message: w.text("message")}
		a.Count, a.Ago = w.number("count", 0), w.duration("ago", 0)
		p.world.Observation.Attempts = append(p.world.Observation.Attempts, a)
	default:
		return fmt.Errorf("unknown kind of line %q", kind)
	}
	return cmp.Or(err, w.rest())
}

func parseTarget(w *words) (Target, error) {
	t := Target{
		Shards: w.number("shards", 1), Replicas: w.number("replicas", 0),
		Restart: w.text("restart"), Paused: w.flag("paused"),
		Failover:    FailoverMode(w.or("failover", string(FailoverFast))),
		NodeTimeout: w.duration("node-timeout", usualTimeout),
	}
	if r := w.text("revision"); r != "" {
		t.Revisions = strings.Split(r, ",")
	}
	return t, w.err
}

func (p *parser) node(w *words) error {
	n := Node{Name: NodeName(w.take()), Shard: w.number("shard", 0), Revision: w.text("rev"),
		Lifecycle: Lifecycle(w.or("life", string(Active))), Join: JoinType(w.text("join")),
		Restart: w.text("restart"), Deleting: w.flag("removing"), KnownID: w.id("id"),
		Silence: w.text("silence"),
		Pod: Pod{Phase: Phase(w.or("pod", string(PodRunning))), Ready: w.flag("ready"),
			Deleting: w.flag("terminating"), Overdue: w.duration("overdue", 0), Crashed: w.flag("crashed"),
			EndedFor: w.duration("ended", 0), UID: w.text("uid"), IP: w.text("ip"), Host: w.text("host"),
			Zone: w.text("zone"), Reason: w.text("reason")},
	}
	if n.Revision == "-" {
		n.Revision = ""
	}
	if !w.flag("silent") && n.KnownID != "" {
		n.Server = &topology.Server{View: topology.View{Self: n.KnownID}}
		switch recorded := w.or("recorded", string(n.KnownID)); {
		case recorded == "-":
			n.KnownID = ""
		case !isID(recorded):
			return fmt.Errorf("recorded=%s is no ID", recorded)
		default:
			n.KnownID = topology.NodeID(recorded)
		}
	}
	for _, other := range p.world.Observation.Nodes {
		if other.Name == n.Name {
			return fmt.Errorf("node %s is there already", n.Name)
		}
	}
	p.world.Observation.Nodes = append(p.world.Observation.Nodes, n)
	return w.err
}

func parsePeer(w *words) (topology.Peer, error) {
	peer := topology.Peer{ID: topology.NodeID(w.take()), IP: w.text("ip"), Port: w.number("port", usualPort),
		Hostname: w.text("hostname"), PrimaryID: w.id("of"),
		Failing: w.flag("fail?"), Failed: w.flag("fail"), Handshake: w.flag("handshake"),
		NoAddr: w.flag("noaddr"), Linked: !w.flag("unlinked"), Epoch: uint64(w.number("epoch", 0))}
	peer.BusPort = w.number("bus", peer.Port+busOffset)
	switch { // a handshake has no role yet
	case w.flag("replica"):
		peer.Role = topology.Replica
	case w.flag("primary"):
		peer.Role = topology.Primary
	}
	if !isID(string(peer.ID)) {
		return peer, fmt.Errorf("%q is no ID", peer.ID)
	}
	set, err := slot.Parse(w.text("slots"))
	peer.Slots = set.Ranges()
	return peer, cmp.Or(err, w.err)
}

func (p *parser) saw(w *words) error {
	name := NodeName(w.take())
	if p.sees[name] == nil {
		p.sees[name] = map[topology.NodeID]*topology.Peer{}
	}
	if len(w.bare) > 0 && strings.HasPrefix(w.bare[0], "-") {
		p.sees[name][topology.NodeID(w.take()[1:])] = nil
		return nil
	}
	peer, err := parsePeer(w)
	p.sees[name][peer.ID] = &peer
	return err
}

// finish builds every view and reads the lines about servers.
func (p *parser) finish() error {
	for i := range p.world.Observation.Nodes {
		n := &p.world.Observation.Nodes[i]
		if n.Server == nil {
			continue
		}
		view := maps.Clone(p.common)
		for id, peer := range p.sees[n.Name] {
			if peer == nil {
				delete(view, id)
			} else {
				view[id] = *peer
			}
		}
		v := topology.View{Self: n.Server.View.Self}
		for _, id := range slices.Sorted(maps.Keys(view)) {
			v.Peers = append(v.Peers, view[id])
		}
		*n.Server = usual(v)
		for _, w := range p.lines[n.Name] {
			if err := about(n.Server, w); err != nil {
				return fmt.Errorf("server %s: %w", n.Name, err)
			}
		}
		delete(p.lines, n.Name)
		delete(p.sees, n.Name)
	}
	for name := range p.lines {
		return fmt.Errorf("a line about server %s, but no node of that name answers", name)
	}
	for name := range p.sees {
		return fmt.Errorf("a view of %s, but no node of that name answers", name)
	}
	return nil
}

func about(s *topology.Server, w words) error {
	switch w.take() {
	case "server":
		s.Version = w.or("version", s.Version)
		s.StateOK = !w.flag("down")
		s.SlotsAssigned, s.SlotsOK = w.number("assigned", s.SlotsAssigned), w.number("ok", s.SlotsOK)
		s.CurrentEpoch = uint64(w.number("current-epoch", int(s.CurrentEpoch)))
		s.LinkUp = w.or("link", strconv.FormatBool(s.LinkUp)) == "true"
		s.Syncing, s.Loading, s.Saving = w.flag("syncing"), w.flag("loading"), w.flag("saving")
		s.LinkDownFor, s.Offset = w.duration("link-down", 0), int64(w.number("offset", 0))
		s.Keys, s.UsedMemory, s.Libraries = int64(w.number("keys", 0)), int64(w.number("memory", 0)), w.number("libraries", 0)
		s.TLSSerial, s.TLSCASerial = w.text("tls-serial"), w.text("tls-ca-serial")
	case "follower":
		s.Followers = append(s.Followers, topology.Follower{IP: w.text("ip"), Port: w.number("port", usualPort),
			Online: !w.flag("offline"), Offset: int64(w.number("offset", int(s.Offset))), Lag: w.duration("lag", 0)})
	case "job":
		name := w.take()
		if name == "-" {
			name = ""
		}
		set, err := slot.Parse(w.text("slots"))
		if err != nil {
			return err
		}
		s.Migrations = append(s.Migrations, topology.Migration{Name: name, Export: w.flag("export"),
			Source: w.id("source"), Target: w.id("target"), Slots: set.Ranges(),
			State: topology.MigrationState(w.text("state")), Created: int64(w.number("created", 0)),
			Updated: int64(w.number("updated", 0)), Message: w.text("message")})
	}
	return cmp.Or(w.err, w.rest())
}

// words is a line in parts: bare words in order, and key=value pairs.
type words struct {
	bare  []string
	pairs map[string]string
	err   error
}

// split cuts a line at spaces; values may be quoted as Go strings.
func split(line string) (words, error) {
	w := words{pairs: map[string]string{}}
	rest := strings.TrimSpace(line)
	for rest != "" && rest[0] != '#' {
		end := strings.IndexAny(rest, " \t=")
		if end < 0 || rest[end] != '=' {
			if end < 0 {
				end = len(rest)
			}
			if !isWord(rest[:end]) {
				return w, fmt.Errorf("%q is no word", rest[:end])
			}
			w.bare = append(w.bare, rest[:end])
			rest = strings.TrimSpace(rest[end:])
			continue
		}
		key := rest[:end]
		rest = rest[end+1:]
		value, err := strconv.QuotedPrefix(rest)
		if err == nil && rest[0] == '"' {
			rest = rest[len(value):]
			value, err = strconv.Unquote(value)
		} else {
			value, _, _ = strings.Cut(rest, " ")
			rest, err = rest[len(value):], nil
		}
		if err != nil {
			return w, err
		}
		w.pairs[key] = value
		rest = strings.TrimSpace(rest)
	}
	return w, nil
}

// take is the next bare word, or "" where there is none.
func (w *words) take() string {
	if len(w.bare) == 0 {
		w.err = cmp.Or(w.err, fmt.Errorf("a word is missing"))
		return ""
	}
	first := w.bare[0]
	w.bare = w.bare[1:]
	return first
}

func (w *words) flag(name string) bool {
	i := slices.Index(w.bare, name)
	if i < 0 {
		return false
	}
	w.bare = slices.Delete(w.bare, i, i+1)
	return true
}

func (w *words) text(key string) string { return w.or(key, "") }

// id is the name of a server; empty if the line has none.
func (w *words) id(key string) topology.NodeID {
	text := w.text(key)
	if text != "" && !isID(text) {
		w.err = cmp.Or(w.err, fmt.Errorf("%s=%s is no ID", key, text))
	}
	return topology.NodeID(text)
}

// isID says whether a text can name a server; `-` before one means that it is not known.
func isID(text string) bool { return isWord(text) && text[0] != '-' }

func (w *words) or(key, usual string) string {
	if v, ok := w.pairs[key]; ok {
		delete(w.pairs, key)
		return v
	}
	return usual
}

func (w *words) number(key string, usual int) int {
	text := w.or(key, strconv.Itoa(usual))
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		w.err = cmp.Or(w.err, fmt.Errorf("%s=%s is no number from 0 up", key, text))
	}
	return n
}

func (w *words) duration(key string, usual time.Duration) time.Duration {
	d, err := time.ParseDuration(w.or(key, usual.String()))
	w.err = cmp.Or(w.err, err)
	return d
}

// rest is an error if anything of the line was not understood.
func (w *words) rest() error {
	if len(w.bare) > 0 || len(w.pairs) > 0 {
		return fmt.Errorf("not understood: %s", list(append(w.bare, slices.Sorted(maps.Keys(w.pairs))...)))
	}
	return nil
}

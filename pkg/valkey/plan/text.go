package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// World is all that a decision depends on. Its text is what the operator logs at -v=4, what
// scripts begin with, and what can be pasted from a production log into a test:
//
//	target shards=2 replicas=1 revision=v1:a
//	node a shard=0 rev=v1:a id=A pod=running ready ip=10.0.0.1 host=h1
//	node b shard=0 rev=v1:a id=B pod=failed ip=10.0.0.2 silent
//	peer A primary epoch=1 slots=0-8191
//	peer B replica of=A fail unlinked
//	server a offset=100
//	sees a -B
//
// A `node` line is a ValkeyNode with its pod; with an id and without `silent` its server
// answered. A `peer` line is what all servers say of an ID, unless a `sees` line of one server
// says otherwise (`-B`: it does not know B). A `server` line has what is not as usual.
// An `attempt` line is what the status remembers. `#` begins a comment.
type World struct {
	Observation Observation
	Target      Target
}

// String writes the world; ParseWorld reads it back as an equal value.
func (w World) String() string {
	var b strings.Builder
	writeTarget(&b, w.Target)
	o := w.Observation
	if o.Creating {
		b.WriteString("creating\n")
	}
	if o.Formed {
		b.WriteString("formed\n")
	}
	for _, n := range o.Nodes {
		writeNode(&b, n)
	}
	common := commonPeers(o)
	for _, id := range slices.Sorted(maps.Keys(common)) {
		fmt.Fprintf(&b, "peer %s\n", peerText(common[id]))
	}
	for _, n := range o.Nodes {
		if n.Server == nil {
			continue
		}
		writeServer(&b, n.Name, n.Server, usual(n.Server.View))
		writeSees(&b, n.Name, n.Server.View, common)
	}
	for _, a := range o.Attempts {
		fmt.Fprintf(&b, "attempt %s %s count=%d ago=%s", a.Kind, a.Subject, a.Count, a.Ago)
		if a.Message != "" {
			fmt.Fprintf(&b, " message=%q", a.Message)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func writeTarget(b *strings.Builder, t Target) {
	fmt.Fprintf(b, "target shards=%d replicas=%d revision=%s", t.Shards, t.Replicas, plain(strings.Join(t.Revisions, ",")))
	if t.Restart != "" {
		fmt.Fprintf(b, " restart=%q", t.Restart)
	}
	if t.Paused {
		b.WriteString(" paused")
	}
	if t.Failover != FailoverFast {
		fmt.Fprintf(b, " failover=%s", t.Failover)
	}
	if t.NodeTimeout != usualTimeout {
		fmt.Fprintf(b, " node-timeout=%s", t.NodeTimeout)
	}
	b.WriteByte('\n')
}

// What a world has where its text does not say otherwise.
const (
	usualTimeout = 5 * time.Second
	usualVersion = "9.1.2"
	usualPort    = 6379
	busOffset    = 10000
)

// field writes ` key=value` where the value is not the usual one.
func field[T comparable](b *strings.Builder, key string, value, usual T) {
	if value != usual {
		fmt.Fprintf(b, " %s=%s", key, plain(fmt.Sprint(value)))
	}
}

// plain is a value as it is where the parser reads it as one word, else in quotes.
func plain(value string) string {
	if isWord(value) {
		return value
	}
	return strconv.Quote(value)
}

// isWord says whether a text is read back as one bare word, or as the value after `=`.
func isWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '`' || r == '\'' || r == '=' || r == '#' || unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
}

func quoted(b *strings.Builder, key, value string) {
	if value != "" {
		fmt.Fprintf(b, " %s=%q", key, value)
	}
}

func flag(b *strings.Builder, name string, on bool) {
	if on {
		b.WriteString(" " + name)
	}
}

func writeNode(b *strings.Builder, n Node) {
	fmt.Fprintf(b, "node %s shard=%d rev=%s", n.Name, n.Shard, plain(cmp.Or(n.Revision, "-")))
	field(b, "life", n.Lifecycle, Active)
	field(b, "join", n.Join, JoinNone)
	quoted(b, "restart", n.Restart)
	field(b, "id", n.ID(), "")
	if n.Server != nil {
		field(b, "recorded", cmp.Or(n.KnownID, "-"), n.ID())
	}
	p := n.Pod
	fmt.Fprintf(b, " pod=%s", plain(string(p.Phase)))
	flag(b, "ready", p.Ready)
	flag(b, "removing", n.Deleting)
	flag(b, "terminating", p.Deleting)
	field(b, "overdue", p.Overdue, 0)
	flag(b, "crashed", p.Crashed)
	field(b, "ended", p.EndedFor, 0)
	field(b, "uid", p.UID, "")
	field(b, "ip", p.IP, "")
	field(b, "host", p.Host, "")
	field(b, "zone", p.Zone, "")
	quoted(b, "reason", p.Reason)
	if n.Server == nil && n.KnownID != "" {
		b.WriteString(" silent")
	}
	quoted(b, "silence", n.Silence)
	b.WriteByte('\n')
}

func peerText(p topology.Peer) string {
	var b strings.Builder
	b.WriteString(string(p.ID))
	field(&b, "ip", p.IP, "")
	field(&b, "port", p.Port, usualPort)
	field(&b, "bus", p.BusPort, p.Port+busOffset)
	field(&b, "hostname", p.Hostname, "")
	b.WriteString(" " + string(p.Role))
	field(&b, "of", p.PrimaryID, "")
	field(&b, "epoch", p.Epoch, 0)
	flag(&b, "fail?", p.Failing)
	flag(&b, "fail", p.Failed)
	flag(&b, "handshake", p.Handshake)
	flag(&b, "noaddr", p.NoAddr)
	flag(&b, "unlinked", !p.Linked)
	if len(p.Slots) > 0 {
		b.WriteString(" slots=" + slot.Join(p.Slots, ","))
	}
	return b.String()
}

// commonPeers is, for each ID, what most servers say of it; of two equally common sayings the
// one that sorts first.
func commonPeers(o Observation) map[topology.NodeID]topology.Peer {
	counts := map[topology.NodeID]map[string]int{}
	peers := map[string]topology.Peer{}
	for _, n := range o.Nodes {
		if n.Server == nil {
			continue
		}
		for _, p := range n.Server.View.Peers {
			text := peerText(p)
			peers[text] = p
			if counts[p.ID] == nil {
				counts[p.ID] = map[string]int{}
			}
			counts[p.ID][text]++
		}
	}
	out := map[topology.NodeID]topology.Peer{}
	for id, sayings := range counts {
		texts := slices.Sorted(maps.Keys(sayings))
		best := slices.MaxFunc(texts, func(a, b string) int {
			return cmp.Or(cmp.Compare(sayings[a], sayings[b]), cmp.Compare(b, a))
		})
		out[id] = peers[best]
	}
	return out
}

func writeSees(b *strings.Builder, name NodeName, v topology.View, common map[topology.NodeID]topology.Peer) {
	seen := map[topology.NodeID]bool{}
	for _, p := range v.Peers {
		seen[p.ID] = true
		if text := peerText(p); text != peerText(common[p.ID]) {
			fmt.Fprintf(b, "sees %s %s\n", name, text)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(common)) {
		if !seen[id] {
			fmt.Fprintf(b, "sees %s -%s\n", name, id)
		}
	}
}

// usual is the server that a healthy node would be, given its view.
func usual(v topology.View) topology.Server {
	s := topology.Server{View: v, Version: usualVersion, StateOK: true}
	var owned slot.Set
	for _, p := range v.Peers {
		s.CurrentEpoch = max(s.CurrentEpoch, p.Epoch)
		owned = owned.Union(slot.Of(p.Slots...))
	}
	s.SlotsAssigned, s.SlotsOK = owned.Len(), owned.Len()
	s.LinkUp = v.Me().Role == topology.Replica
	return s
}

func writeServer(out *strings.Builder, name NodeName, s *topology.Server, u topology.Server) {
	b := &strings.Builder{}
	field(b, "version", s.Version, u.Version)
	flag(b, "down", !s.StateOK)
	field(b, "assigned", s.SlotsAssigned, u.SlotsAssigned)
	field(b, "ok", s.SlotsOK, u.SlotsOK)
	field(b, "current-epoch", s.CurrentEpoch, u.CurrentEpoch)
	field(b, "link", s.LinkUp, u.LinkUp)
	flag(b, "syncing", s.Syncing)
	field(b, "link-down", s.LinkDownFor, 0)
	field(b, "offset", s.Offset, 0)
	flag(b, "loading", s.Loading)
	flag(b, "saving", s.Saving)
	field(b, "keys", s.Keys, 0)
	field(b, "memory", s.UsedMemory, 0)
	field(b, "libraries", s.Libraries, 0)
	field(b, "tls-serial", s.TLSSerial, "")
	field(b, "tls-ca-serial", s.TLSCASerial, "")
	if b.Len() > 0 {
		fmt.Fprintf(out, "server %s%s\n", name, b.String())
	}
	for _, f := range s.Followers {
		fmt.Fprintf(out, "follower %s ip=%s", name, plain(f.IP))
		field(out, "port", f.Port, usualPort)
		flag(out, "offline", !f.Online)
		field(out, "offset", f.Offset, s.Offset)
		field(out, "lag", f.Lag, 0)
		out.WriteByte('\n')
	}
	for _, m := range s.Migrations {
		fmt.Fprintf(out, "job %s %s source=%s target=%s slots=%s state=%s", name, cmp.Or(m.Name, "-"),
			plain(string(m.Source)), plain(string(m.Target)), slot.Join(m.Slots, ","), plain(string(m.State)))
		flag(out, "export", m.Export)
		field(out, "created", m.Created, 0)
		field(out, "updated", m.Updated, 0)
		quoted(out, "message", m.Message)
		out.WriteByte('\n')
	}
}

package topology

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Replies is what a server answered to one look, as it was read.
type Replies struct {
	// Nodes, ClusterInfo and Info are CLUSTER NODES, CLUSTER INFO and INFO with at
	// least the sections server, replication, persistence, memory, keyspace and tls.
	Nodes, ClusterInfo, Info string
	// Migrations is CLUSTER GETSLOTMIGRATIONS decoded: lists as []any, strings as
	// string or []byte. It is nil where the server does not know the command.
	Migrations any
}

// ParseServer reads all of a look. It fails if the view or the list of
// migrations cannot be read; a word or field that it does not know is left out.
func ParseServer(r Replies) (Server, error) {
	var s Server
	var err error
	if s.View, err = ParseNodes(r.Nodes); err != nil {
		return Server{}, err
	}
	if s.Migrations, err = ParseMigrations(r.Migrations); err != nil {
		return Server{}, err
	}
	readClusterInfo(&s, r.ClusterInfo)
	readInfo(&s, r.Info)
	return s, nil
}

// ParseNodes reads CLUSTER NODES, one line a node:
//
//	id ip:port@busport[,hostname][,key=value…] flags primary ping pong epoch link slot…
//
// It takes what servers really write: lines of nodes that are only met or without address,
// IPv6 without brackets, an empty hostname, auxiliary fields, flags it does not
// know. But it leaves out no line and no slot that it cannot read, it fails instead:
// a node that is missing from a view is a reason to act.
func ParseNodes(text string) (View, error) {
	var v View
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		p, self, err := parsePeer(fields)
		if err != nil {
			return View{}, fmt.Errorf("cluster nodes, line %q: %w", strings.TrimSpace(line), err)
		}
		if self {
			v.Self = p.ID
		}
		v.Peers = append(v.Peers, p)
	}
	if v.Self == "" {
		return View{}, fmt.Errorf("cluster nodes: no line of %d is marked myself", len(v.Peers))
	}
	return v, nil
}

func parsePeer(fields []string) (p Peer, self bool, err error) {
	if len(fields) < 8 {
		return Peer{}, false, fmt.Errorf("%d fields, want at least 8", len(fields))
	}
	p.ID = NodeID(fields[0])
	readAddress(&p, fields[1])
	self = readFlags(&p, fields[2])
	if fields[3] != "-" {
		p.PrimaryID = NodeID(fields[3])
	}
	if p.Epoch, err = strconv.ParseUint(fields[6], 10, 64); err != nil {
		return Peer{}, false, fmt.Errorf("config epoch: %w", err)
	}
	p.Linked = fields[7] == "connected"
	for _, word := range fields[8:] {
		if strings.HasPrefix(word, "[") {
			continue // [slot->-id] and [slot-<-id]: a move key by key, which is not done here
		}
		r, err := slot.ParseRange(word)
		if err != nil {
			return Peer{}, false, err
		}
		p.Slots = append(p.Slots, r)
	}
	return p, self, nil
}

// readAddress reads ip:port@busport,hostname,key=value…: the IP may have
// colons itself or be empty, the bus port and all after it may be missing.
func readAddress(p *Peer, text string) {
	text, rest, _ := strings.Cut(text, ",")
	if name, _, _ := strings.Cut(rest, ","); !strings.Contains(name, "=") {
		p.Hostname = name
	}
	text, bus, _ := strings.Cut(text, "@")
	if colon := strings.LastIndexByte(text, ':'); colon >= 0 {
		p.IP, p.Port = strings.Trim(text[:colon], "[]"), port(text[colon+1:])
	}
	p.BusPort = port(bus)
}

// port is 0 for what is no port.
func port(text string) int {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

func readFlags(p *Peer, text string) (self bool) {
	for flag := range strings.SplitSeq(text, ",") {
		switch flag {
		case "myself":
			self = true
		case "master":
			p.Role = Primary
		case "slave":
			p.Role = Replica
		case "fail?":
			p.Failing = true
		case "fail":
			p.Failed = true
		case "handshake":
			p.Handshake = true
		case "noaddr":
			p.NoAddr = true
		}
	}
	return self
}

// lines calls visit with each "name:value" line of an INFO-like text.
func lines(text string, visit func(name, value string)) {
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			visit(name, value)
		}
	}
}

func readClusterInfo(s *Server, text string) {
	lines(text, func(name, value string) {
		switch name {
		case "cluster_state":
			s.StateOK = value == "ok"
		case "cluster_slots_assigned":
			s.SlotsAssigned = int(number(value))
		case "cluster_slots_ok":
			s.SlotsOK = int(number(value))
		case "cluster_current_epoch":
			s.CurrentEpoch = uint64(max(number(value), 0))
		}
	})
}

// number is 0 for what is no number.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

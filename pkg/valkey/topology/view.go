// Package topology has what Valkey servers say about their cluster: parsers of
// their replies and the values that hold them. It does no IO.
//
// There is no single truth in a Valkey cluster: each server has a view of its
// own, spread by gossip. A View is one server's; nothing here merges them.
package topology

import (
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// NodeID is the name that a Valkey server gives itself: 40 hexadecimal digits,
// new for each server with an empty data directory, never reused.
type NodeID string

// Role is what a server is at present.
type Role string

// The roles. A server that owns no hash slot and follows nobody is a primary too.
const (
	Primary Role = "primary"
	Replica Role = "replica"
)

// Peer is one line of CLUSTER NODES: what the asked server believes of one
// node, itself included.
type Peer struct {
	ID NodeID
	// IP, Port, BusPort and Hostname are where the asked server would look for
	// it; IP is empty while unknown (noaddr).
	IP       string
	Port     int
	BusPort  int
	Hostname string
	Role     Role
	// PrimaryID is whom it replicates; empty for primaries.
	PrimaryID NodeID
	// Failing is `fail?`, Failed is `fail`: the asked server's opinion, and the
	// cluster's. Both are meaningless about oneself.
	Failing, Failed bool
	// Handshake: a MEET is under way; the ID is provisional.
	Handshake bool
	NoAddr    bool
	// Epoch is the config epoch that the asked server knows of it.
	Epoch uint64
	// Linked: the asked server has a bus connection to it.
	Linked bool
	// Slots that the asked server believes it owns.
	Slots []slot.Range
}

// View is one server's CLUSTER NODES.
type View struct {
	// Self is the asked server's own node ID.
	Self  NodeID
	Peers []Peer
}

// Find gives what the view says of a node; false if it knows no such node.
func (v View) Find(id NodeID) (Peer, bool) {
	for _, p := range v.Peers {
		if p.ID == id {
			return p, true
		}
	}
	return Peer{}, false
}

// Me is the asked server's own line; the zero Peer if the view has none.
func (v View) Me() Peer { p, _ := v.Find(v.Self); return p }

// Follower is one replica as its primary lists it (INFO replication).
type Follower struct {
	IP     string
	Port   int
	Online bool // state=online: the full sync is over
	Offset int64
	Lag    time.Duration
}

// MigrationState is how far a slot migration job is.
type MigrationState string

// The states that end a job. Every other word of the server is Running: a state
// that a newer server invents is not an outcome.
const (
	Running   MigrationState = "running"
	Success   MigrationState = "success"
	Failed    MigrationState = "failed"
	Cancelled MigrationState = "cancelled"
)

// Migration is one job of CLUSTER GETSLOTMIGRATIONS. Source and target both
// list it, in memory only.
type Migration struct {
	Name           string
	Export         bool // the asked server is the source
	Source, Target NodeID
	Slots          []slot.Range
	State          MigrationState
	// Created and Updated are in the server's clock, seconds since 1970.
	Created, Updated int64
	Message          string
}

// Server is all that one server said in one look.
type Server struct {
	View View
	// Version is MAJOR.MINOR.PATCH of the running binary.
	Version string
	// StateOK is cluster_state:ok. SlotsAssigned counts the slots that have an
	// owner in this server's view, dead owners included; SlotsOK without them.
	StateOK                bool
	SlotsAssigned, SlotsOK int
	CurrentEpoch           uint64
	// Replication. LinkUp, Syncing and LinkDownFor say how a replica stands with its
	// primary; LinkDownFor is 0 while the link is up and -1 if it was never up.
	LinkUp      bool
	Syncing     bool
	LinkDownFor time.Duration
	// Offset is the replication offset: what a primary has written to its
	// stream, what a replica has applied of it.
	Offset    int64
	Followers []Follower
	Loading   bool
	// Saving: a child process (save, rewrite, snapshot) is at work; there is
	// only one at a time.
	Saving     bool
	Keys       int64
	UsedMemory int64
	// Libraries counts the loaded function libraries (INFO memory, number_of_libraries).
	Libraries int
	// Migrations are newest first. It is empty on servers before 9.0.
	Migrations []Migration
	// TLSSerial and TLSCASerial are the serials that INFO tls shows, empty where
	// the server does not show them.
	TLSSerial, TLSCASerial string
}

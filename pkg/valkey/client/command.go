package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Node is one server, meant by its identity: each of its methods makes sure
// that it is this server which answers, and sends nothing more if not.
type Node struct {
	dialer Dialer
	addr   string
	id     topology.NodeID
}

// Node is the server with this ID, which is thought to be at addr ("ip:port").
func (d Dialer) Node(addr string, id topology.NodeID) Node {
	return Node{dialer: d, addr: addr, id: id}
}

// send asks who the server is and then, on the same connection, sends the command. It
// is never sent twice: after an UnreachableError nobody knows whether it was carried out.
func (n Node) send(ctx context.Context, cmd command) (reply, error) {
	ctx, cancel := n.dialer.deadline(ctx)
	defer cancel()
	c, who, err := n.dialer.ask(ctx, n.addr, command{"CLUSTER", "MYID"})
	if err != nil {
		return reply{}, err
	}
	if who[0].err != "" {
		n.dialer.Pool.put(n.dialer.key(n.addr), c)
		return reply{}, &ServerError{Command: "CLUSTER MYID", Text: who[0].err}
	}
	if got := topology.NodeID(who[0].text()); n.id == "" || got != n.id {
		n.dialer.Pool.put(n.dialer.key(n.addr), c)
		return reply{}, &IdentityError{Addr: n.addr, Want: n.id, Got: got}
	}
	replies, err := c.do(ctx, cmd)
	if err != nil {
		return reply{}, err
	}
	n.dialer.Pool.put(n.dialer.key(n.addr), c)
	if replies[0].err != "" {
		return reply{}, &ServerError{Command: cmd.String(), Text: replies[0].err}
	}
	return replies[0], nil
}

func (n Node) cluster(ctx context.Context, args ...string) error {
	_, err := n.send(ctx, append(command{"CLUSTER"}, args...))
	return err
}

// SetConfigEpoch works only while the node knows nobody and its epoch is 0.
func (n Node) SetConfigEpoch(ctx context.Context, epoch uint64) error {
	return n.cluster(ctx, "SET-CONFIG-EPOCH", strconv.FormatUint(epoch, 10))
}

// Meet has the node introduce itself to whoever answers at an address. That it
// returns means that this is scheduled, not that it happened.
func (n Node) Meet(ctx context.Context, ip string, port, busPort int) error {
	return n.cluster(ctx, "MEET", ip, strconv.Itoa(port), strconv.Itoa(busPort))
}

// AddSlots gives unowned slots to the node: all of them or, with an error, none.
func (n Node) AddSlots(ctx context.Context, slots slot.Set) error {
	return n.cluster(ctx, append([]string{"ADDSLOTSRANGE"}, ends(slots)...)...)
}

// Replicate makes the node, which must own no slot and hold no key, a replica.
// The server answers "Unknown node" until it has heard of the primary.
func (n Node) Replicate(ctx context.Context, primary topology.NodeID) error {
	return n.cluster(ctx, "REPLICATE", string(primary))
}

// Forget removes another server from this node's view.
func (n Node) Forget(ctx context.Context, id topology.NodeID) error {
	return n.cluster(ctx, "FORGET", string(id))
}

// FailoverMode is how a failover is asked for.
type FailoverMode string

// The modes. Coordinated needs a live primary, Force a majority of the
// primaries, Takeover nobody.
const (
	Coordinated FailoverMode = ""
	Force       FailoverMode = "FORCE"
	Takeover    FailoverMode = "TAKEOVER"
)

// Failover has the node, a replica, take its primary's place. That it returns
// means that it was begun.
func (n Node) Failover(ctx context.Context, mode FailoverMode) error {
	if mode == Coordinated {
		return n.cluster(ctx, "FAILOVER")
	}
	return n.cluster(ctx, "FAILOVER", string(mode))
}

// MigrateSlots starts one job that moves the node's slots to another primary.
// How it ends is in what Look says of both.
func (n Node) MigrateSlots(ctx context.Context, slots slot.Set, target topology.NodeID) error {
	args := append([]string{"MIGRATESLOTS", "SLOTSRANGE"}, ends(slots)...)
	return n.cluster(ctx, append(args, "NODE", string(target))...)
}

// CancelMigrations cancels every job of which the node is the source.
func (n Node) CancelMigrations(ctx context.Context) error {
	return n.cluster(ctx, "CANCELSLOTMIGRATIONS")
}

// LoadACL has the node read its users.acl. The file that it sees may still be an
// older one: ask for ACLRevision.
func (n Node) LoadACL(ctx context.Context) error {
	_, err := n.send(ctx, command{"ACL", "LOAD"})
	return err
}

// ACLRevision is the revision of the users.acl that the node has loaded, as
// acl.Revision gives it for a file; empty if the loaded one has none.
func (n Node) ACLRevision(ctx context.Context) (string, error) {
	r, err := n.send(ctx, command{"ACL", "GETUSER", acl.RevisionUser})
	if err != nil {
		return "", err
	}
	fields, _ := r.value.([]any) // of an unknown user: nil
	for i := 0; i+1 < len(fields); i += 2 {
		name := reply{value: fields[i]}
		if name.text() != "passwords" {
			continue
		}
		if hashes, _ := fields[i+1].([]any); len(hashes) == 1 {
			hash := reply{value: hashes[0]}
			return hash.text(), nil
		}
	}
	return "", nil
}

// SetConfig changes directives of the running server, all or none. Setting a TLS
// file to the value it has reads it anew.
func (n Node) SetConfig(ctx context.Context, settings map[string]string) error {
	cmd := command{"CONFIG", "SET"}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		cmd = append(cmd, key, settings[key])
	}
	_, err := n.send(ctx, cmd)
	return err
}

// DumpFunctions is every function library of the node, in the server's own form.
func (n Node) DumpFunctions(ctx context.Context) ([]byte, error) {
	r, err := n.send(ctx, command{"FUNCTION", "DUMP"})
	if err != nil {
		return nil, err
	}
	if _, ok := r.value.([]byte); !ok {
		return nil, &UnreachableError{Addr: n.addr, Command: "FUNCTION DUMP", Err: fmt.Errorf("answer is %T", r.value)}
	}
	return []byte(r.text()), nil
}

// RestoreFunctions loads what DumpFunctions gave; libraries of the same name are
// replaced, others stay.
func (n Node) RestoreFunctions(ctx context.Context, dump []byte) error {
	if len(dump) == 0 {
		return errors.New("restore functions: the dump is empty")
	}
	_, err := n.send(ctx, command{"FUNCTION", "RESTORE", string(dump), "REPLACE"})
	return err
}

// ends lists the first and last slot of each range: slots are sent as ranges, never one
// by one.
func ends(slots slot.Set) []string {
	var out []string
	for _, r := range slots.Ranges() {
		out = append(out, strconv.Itoa(r.First), strconv.Itoa(r.Last))
	}
	return out
}

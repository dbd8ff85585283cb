// Package planner lets the planner drive real Valkey servers, without Kubernetes: a pod is
// a process. What the model cluster of plantest says about servers is held against this.
package planner

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

// world is a cluster of processes with the facts that Kubernetes would keep.
type world struct {
	t       *testing.T
	target  plan.Target
	obs     plan.Observation // nodes without servers; attempts; phase
	servers map[plan.NodeName]*valkeyproc.Server
	serial  int
	taken   []plan.Decision // every decision that was carried out
	since   time.Time       // of the last pass, for Ago
	begun   time.Time
	last    string
}

func newWorld(t *testing.T, shards, replicas int) *world {
	return &world{t: t, servers: map[plan.NodeName]*valkeyproc.Server{}, since: time.Now(), begun: time.Now(), target: plan.Target{
		Shards: shards, Replicas: replicas, Revisions: []string{"r"},
		Failover: plan.FailoverFast, NodeTimeout: 5 * time.Second,
	}}
}

// look asks every server, as a pass does.
func (w *world) look() plan.Observation {
	obs := w.obs
	obs.Nodes = slices.Clone(w.obs.Nodes)
	elapsed := time.Since(w.since)
	w.since = time.Now()
	for i := range w.obs.Attempts {
		w.obs.Attempts[i].Ago += elapsed
	}
	obs.Attempts = slices.Clone(w.obs.Attempts)
	var running []int
	var addrs []string
	for i := range obs.Nodes {
		n := &obs.Nodes[i]
		select {
		case <-w.servers[n.Name].Ended():
			n.Pod.Phase, n.Pod.Ready, n.Pod.Crashed = plan.PodFailed, false, true
		default:
			running, addrs = append(running, i), append(addrs, w.servers[n.Name].Addr())
		}
	}
	if len(running) == 0 {
		return obs
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
	defer cancel()
	d := w.servers[obs.Nodes[running[0]].Name].Dialer(w.t)
	d.Pool = &pool
	for k, sight := range d.LookAll(ctx, addrs) {
		n := &obs.Nodes[running[k]]
		if sight.Err != nil {
			n.Silence = sight.Err.Error()
			continue
		}
		n.Server = &sight.Server
		n.KnownID = sight.Server.View.Self
		w.obs.Nodes[running[k]].KnownID = n.KnownID
	}
	return obs
}

var pool client.Pool

// pass is one tick: look, plan, ask the guard, act.
func (w *world) pass() plan.Decision {
	w.t.Helper()
	obs := w.look()
	d := plan.Plan(obs, w.target)
	if err := plan.Allowed(obs, d.Action); err != nil {
		w.t.Fatalf("the guard refuses %s: %v\n%s", d, err, plan.World{Observation: obs, Target: w.target})
	}
	w.obs.Attempts = plan.Remember(obs, w.target, d)
	if text := d.String(); text != w.last {
		w.t.Logf("%6dms %s", time.Since(w.begun).Milliseconds(), d)
		w.last = text
	}
	if !plan.IsDeed(d.Action) {
		return d
	}
	w.taken = append(w.taken, d)
	if err := w.act(obs, d.Action); err != nil {
		w.t.Logf("%s: %v", d, err)
	}
	return d
}

// settle passes until the planner is done.
func (w *world) settle(within time.Duration) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	var last plan.Decision
	for time.Now().Before(deadline) {
		d := w.pass()
		switch a := d.Action.(type) {
		case plan.Done:
			return
		case plan.Wait:
			time.Sleep(min(a.Again, 50*time.Millisecond))
		case plan.Hold:
			time.Sleep(50 * time.Millisecond)
		}
		last = d
	}
	w.t.Fatalf("not settled after %s: %s\n%s\nso far:\n%s", within, last, plan.World{Observation: w.look(), Target: w.target}, w.story())
}

func (w *world) story() string {
	var b strings.Builder
	for _, d := range w.taken {
		b.WriteString("  " + d.String() + "\n")
	}
	return b.String()
}

// act carries out one action.
func (w *world) act(obs plan.Observation, a plan.Action) error {
	switch a := a.(type) {
	case plan.Snapshot:
		w.obs.Creating = true
	case plan.Complete:
		w.obs.Creating, w.obs.Formed = false, true
	case plan.CreateNodes:
		for i, s := range valkeyproc.Start(w.t, len(a.Nodes), valkeyproc.Options{}) {
			w.add(a.Nodes[i], s)
		}
	case plan.RemoveNodes:
		for _, r := range a.Nodes {
			w.remove(r.Node)
		}
	case plan.SetLifecycle:
		for i := range w.obs.Nodes {
			if n := &w.obs.Nodes[i]; slices.Contains(a.Nodes, n.Name) {
				n.Lifecycle = a.Lifecycle
			}
		}
	default:
		ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Second)
		defer cancel()
		return w.command(ctx, obs, a)
	}
	return nil
}

// command sends the Valkey commands of an action.
func (w *world) command(ctx context.Context, obs plan.Observation, a plan.Action) error {
	switch a := a.(type) {
	case plan.SetEpoch:
		return w.node(obs, a.ID).SetConfigEpoch(ctx, a.Epoch)
	case plan.Meet:
		return w.meet(ctx, obs, a)
	case plan.Assign:
		if err := w.node(obs, a.Primary).AddSlots(ctx, a.Slots); err != nil {
			return err
		}
		return w.introduce(ctx, obs, a.Primary, a.Tell)
	case plan.Attach:
		return w.node(obs, a.Replica).Replicate(ctx, a.Primary)
	case plan.Forget:
		for _, on := range a.On {
			if err := w.node(obs, on).Forget(ctx, a.ID); err != nil {
				return err
			}
		}
	case plan.Failover:
		mode := client.FailoverMode(a.Mode)
		if a.Mode == plan.Coordinated {
			mode = client.Coordinated
		}
		return w.node(obs, a.Replica).Failover(ctx, mode)
	case plan.MoveSlots:
		for _, m := range a.Moves {
			if err := w.node(obs, m.From).MigrateSlots(ctx, m.Slots, m.To); err != nil {
				return err
			}
		}
	case plan.CancelMoves:
		for _, id := range a.Sources {
			if err := w.node(obs, id).CancelMigrations(ctx); err != nil {
				return err
			}
		}
	case plan.CopyFunctions:
		dump, err := w.node(obs, a.From).DumpFunctions(ctx)
		if err != nil {
			return err
		}
		return w.node(obs, a.To).RestoreFunctions(ctx, dump)
	default:
		return fmt.Errorf("no deed: %s", a)
	}
	return nil
}

func (w *world) add(n plan.NewNode, s *valkeyproc.Server) {
	w.serial++
	name := plan.NodeName(fmt.Sprintf("n%02d", w.serial))
	w.servers[name] = s
	w.obs.Nodes = append(w.obs.Nodes, plan.Node{Name: name, Shard: n.Shard, Join: n.Join, Lifecycle: plan.Joining,
		Revision: w.target.Revisions[0], Restart: w.target.Restart,
		Pod: plan.Pod{UID: "uid-" + string(name), Phase: plan.PodRunning, Ready: true, IP: s.IP, Host: fmt.Sprintf("h%d", w.serial%3)}})
}

// remove ends the process as a pod deletion does, and then the node is no more.
func (w *world) remove(name plan.NodeName) {
	select {
	case <-w.servers[name].Ended():
	default:
		w.servers[name].Stop(w.t)
	}
	w.obs.Nodes = slices.DeleteFunc(w.obs.Nodes, func(n plan.Node) bool { return n.Name == name })
}

func (w *world) meet(ctx context.Context, obs plan.Observation, a plan.Meet) error {
	node := w.node(obs, a.ID)
	if a.Epoch > 0 {
		if err := node.SetConfigEpoch(ctx, a.Epoch); err != nil {
			return err
		}
	}
	return w.introduce(ctx, obs, a.ID, a.With)
}

func (w *world) introduce(ctx context.Context, obs plan.Observation, who topology.NodeID, to []topology.NodeID) error {
	node := w.node(obs, who)
	for _, id := range to {
		if err := node.Meet(ctx, w.server(obs, id).IP, valkeyproc.Port, valkeyproc.BusPort); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) server(obs plan.Observation, id topology.NodeID) *valkeyproc.Server {
	for _, n := range obs.Nodes {
		if n.ID() == id {
			return w.servers[n.Name]
		}
	}
	w.t.Fatalf("no server has the ID %s", id)
	return nil
}

func (w *world) node(obs plan.Observation, id topology.NodeID) client.Node {
	s := w.server(obs, id)
	d := s.Dialer(w.t)
	d.Pool = &pool
	return d.Node(net.JoinHostPort(s.IP, fmt.Sprint(valkeyproc.Port)), id)
}

// assertShape checks every server's own view against the target.
func (w *world) assertShape() {
	w.t.Helper()
	obs := w.look()
	if want := w.target.Shards * (w.target.Replicas + 1); len(obs.Nodes) != want {
		w.t.Fatalf("%d nodes, want %d\n%s", len(obs.Nodes), want, w.story())
	}
	for _, n := range obs.Nodes {
		if n.Server == nil {
			w.t.Fatalf("%s does not answer: %s", n.Name, n.Silence)
		}
		if s := n.Server; !s.StateOK || s.SlotsAssigned != slot.Count || len(s.View.Peers) != len(obs.Nodes) {
			w.t.Errorf("%s: ok=%t assigned=%d knows %d nodes", n.Name, s.StateOK, s.SlotsAssigned, len(s.View.Peers))
		}
		counts := map[topology.NodeID]int{}
		replicas := map[topology.NodeID]int{}
		for _, p := range n.Server.View.Peers {
			if p.Role == topology.Replica {
				replicas[p.PrimaryID]++
				continue
			}
			owned := slot.Of(p.Slots...)
			counts[p.ID] = owned.Len()
		}
		if len(counts) != w.target.Shards {
			w.t.Errorf("%s sees %d primaries, want %d", n.Name, len(counts), w.target.Shards)
		}
		for id, c := range counts {
			if least := slot.Count / w.target.Shards; c < least || c > least+1 || replicas[id] != w.target.Replicas {
				w.t.Errorf("%s sees primary %s with %d slots and %d replicas", n.Name, id, c, replicas[id])
			}
		}
	}
	if w.t.Failed() {
		w.t.Fatalf("the story:\n%s", w.story())
	}
}

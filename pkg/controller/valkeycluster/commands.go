package valkeycluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// The Valkey commands of the actions. Whoever is meant is named by ID, and the server says that
// it is this ID before it gets the command.

// server is the way to the one with this ID.
func (on stage) server(id topology.NodeID) (Server, *plan.Node, error) {
	n := on.scene.find(func(n plan.Node) bool { return id != "" && n.ID() == id })
	switch {
	case n == nil:
		return nil, nil, fmt.Errorf("reach server %s: %w", id, errNobody)
	case n.Server == nil:
		return nil, nil, &notYet{fmt.Sprintf("%s does not answer", n.Name)}
	}
	return on.servers.Node(place(*n), id), n, nil
}

// outcome sorts a command's error. tolerated are parts of answers that mean that the deed is done
// already; every other answer, silence, or another server at the address is a matter for
// the next look.
func outcome(what string, err error, tolerated ...string) error {
	if err == nil {
		return nil
	}
	var refused *client.ServerError
	if errors.As(err, &refused) && slices.ContainsFunc(tolerated, func(part string) bool {
		return strings.Contains(strings.ToLower(refused.Text), part)
	}) {
		return nil
	}
	return &notYet{what + ": " + err.Error()}
}

func (on stage) setEpoch(ctx context.Context, a plan.SetEpoch) error {
	server, n, err := on.server(a.ID)
	if err != nil {
		return err
	}
	return outcome(fmt.Sprintf("set config epoch %d on %s", a.Epoch, n.Name), server.SetConfigEpoch(ctx, a.Epoch), "already")
}

// meet introduces a node to members. What answers at an address is met, whoever it is: this
// pass has just heard the members' IDs there.
func (on stage) meet(ctx context.Context, a plan.Meet) error {
	server, n, err := on.server(a.ID)
	if err != nil {
		return err
	}
	isAlone := len(n.Server.View.Peers) <= 1 && n.Server.View.Me().Epoch == 0
	if a.Epoch > 0 && isAlone {
		err := outcome(fmt.Sprintf("set config epoch %d on %s", a.Epoch, n.Name), server.SetConfigEpoch(ctx, a.Epoch), "already")
		if err != nil {
			return err
		}
	}
	if err := on.introduce(ctx, server, n, a.With); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("cluster meet issued", "node", n.Name, "members", len(a.With))
	return nil
}

// introduce has a server shake hands with others.
func (on stage) introduce(ctx context.Context, server Server, n *plan.Node, to []topology.NodeID) error {
	for _, id := range to {
		_, member, err := on.server(id)
		if err != nil {
			return err
		}
		err = outcome(fmt.Sprintf("meet %s with %s", n.Name, member.Name),
			server.Meet(ctx, member.Pod.IP, v1alpha1.PortValkey, v1alpha1.PortBus))
		if err != nil {
			return err
		}
	}
	return nil
}

func (on stage) assign(ctx context.Context, a plan.Assign) error {
	server, n, err := on.server(a.Primary)
	if err != nil {
		return err
	}
	if err := outcome(fmt.Sprintf("assign slots %s to %s", a.Slots, n.Name), server.AddSlots(ctx, a.Slots)); err != nil {
		return err
	}
	return on.introduce(ctx, server, n, a.Tell)
}

func (on stage) attach(ctx context.Context, a plan.Attach) error {
	server, n, err := on.server(a.Replica)
	if err != nil {
		return err
	}
	return outcome(fmt.Sprintf("attach %s to %s", n.Name, a.Primary), server.Replicate(ctx, a.Primary))
}

// forget tells every member in one pass: one that still lists the server would gossip it back to
// the others.
func (on stage) forget(ctx context.Context, a plan.Forget) error {
	return eachOf(len(a.On), func(i int) error {
		server, n, err := on.server(a.On[i])
		if err != nil {
			return err
		}
		return outcome(fmt.Sprintf("forget %s on %s", a.ID, n.Name), server.Forget(ctx, a.ID), "unknown node")
	})
}

var failoverModes = map[plan.Mode]client.FailoverMode{
	plan.Coordinated: client.Coordinated,
	plan.Force:       client.Force,
	plan.Takeover:    client.Takeover,
}

func (on stage) failover(ctx context.Context, a plan.Failover) error {
	mode, known := failoverModes[a.Mode]
	if !known {
		return fmt.Errorf("failover of %s: mode %q is unknown", a.Primary, a.Mode)
	}
	server, n, err := on.server(a.Replica)
	if err != nil {
		return err
	}
	err = outcome(fmt.Sprintf("failover %s to %s", a.Mode, n.Name), server.Failover(ctx, mode))
	if err != nil {
		return err
	}
	message := "failover forced on replica"
	switch a.Mode {
	case plan.Takeover:
		message = "no quorum — issued TAKEOVER on replica"
	case plan.Coordinated:
		message = "failover to up-to-date replica for rolling upgrade"
	}
	klog.FromContext(ctx).Info(message, "node", n.Name)
	return nil
}

// moveSlots starts every job of the action; what a source is asked for goes out in order.
func (on stage) moveSlots(ctx context.Context, a plan.MoveSlots) error {
	var sources []topology.NodeID
	for _, m := range a.Moves {
		if !slices.Contains(sources, m.From) {
			sources = append(sources, m.From)
		}
	}
	return eachOf(len(sources), func(i int) error {
		for _, m := range a.Moves {
			if m.From != sources[i] {
				continue
			}
			server, n, err := on.server(m.From)
			if err != nil {
				return err
			}
			err = outcome(fmt.Sprintf("move slots %s from %s to %s", m.Slots, n.Name, m.To), server.MigrateSlots(ctx, m.Slots, m.To))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (on stage) cancelMoves(ctx context.Context, a plan.CancelMoves) error {
	return eachOf(len(a.Sources), func(i int) error {
		server, n, err := on.server(a.Sources[i])
		if err != nil {
			return err
		}
		return outcome(fmt.Sprintf("cancel migrations of %s", n.Name), server.CancelMigrations(ctx), "no migration")
	})
}

func (on stage) copyFunctions(ctx context.Context, a plan.CopyFunctions) error {
	from, source, err := on.server(a.From)
	if err != nil {
		return err
	}
	to, target, err := on.server(a.To)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("copy functions from %s to %s", source.Name, target.Name)
	dump, err := from.DumpFunctions(ctx)
	if err != nil {
		return outcome(what, err)
	}
	return outcome(what, to.RestoreFunctions(ctx, dump))
}

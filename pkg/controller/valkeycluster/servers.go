package valkeycluster

import (
	"context"
	"fmt"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Place is where a node's server is thought to be. Who is there must be asked.
type Place struct {
	// Pod is the node's name, from which the name in its certificate derives.
	Pod string
	// Addr is "ip:port"; IPv6 in brackets.
	Addr string
}

// Servers reaches the servers of one cluster.
type Servers interface {
	// Look asks a server for all that it knows; it changes nothing.
	Look(ctx context.Context, at Place) (topology.Server, error)
	// Node is the server with this ID: a command is sent only if it is the one that answers there.
	Node(at Place, id topology.NodeID) Server
}

// Server takes the commands that change something. See client.Node for what each promises.
type Server interface {
	SetConfigEpoch(ctx context.Context, epoch uint64) error
	Meet(ctx context.Context, ip string, port, busPort int) error
	AddSlots(ctx context.Context, slots slot.Set) error
	Replicate(ctx context.Context, primary topology.NodeID) error
	Forget(ctx context.Context, id topology.NodeID) error
	Failover(ctx context.Context, mode client.FailoverMode) error
	MigrateSlots(ctx context.Context, slots slot.Set, target topology.NodeID) error
	CancelMigrations(ctx context.Context) error
	DumpFunctions(ctx context.Context) ([]byte, error)
	RestoreFunctions(ctx context.Context, dump []byte) error
}

// Access is what it takes to talk to the servers of one cluster.
type Access struct {
	// Password of _momento_operator.
	Password string
	// CA has the bundles to trust, PEM; nil for a cluster without TLS. Suffix follows the pod's
	// name in a server's name: ".{cluster}.{namespace}.svc.{domain}".
	CA     []byte
	Suffix string
}

// Connect gives the way to a cluster's servers.
type Connect func(Access) (Servers, error)

// Dialing is the Connect of real life. The pool is shared by all clusters.
func Dialing(pool *client.Pool) Connect {
	return func(a Access) (Servers, error) {
		d := dialing{access: a, pool: pool}
		if a.CA != nil {
			// Said now, once, and not by each server.
			if _, err := client.TLSConfig(a.CA, a.Suffix); err != nil {
				return nil, fmt.Errorf("trust the cluster's certificates: %w", err)
			}
		}
		return d, nil
	}
}

type dialing struct {
	access Access
	pool   *client.Pool
}

func (d dialing) dialer(at Place) client.Dialer {
	out := client.Dialer{Password: d.access.Password, Pool: d.pool}
	if d.access.CA != nil {
		// Checked by Dialing: an error cannot come back.
		out.TLS, _ = client.TLSConfig(d.access.CA, at.Pod+d.access.Suffix)
	}
	return out
}

func (d dialing) Look(ctx context.Context, at Place) (topology.Server, error) {
	return d.dialer(at).Look(ctx, at.Addr)
}

func (d dialing) Node(at Place, id topology.NodeID) Server {
	return d.dialer(at).Node(at.Addr, id)
}

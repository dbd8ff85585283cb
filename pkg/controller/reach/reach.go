// Package reach finds the servers of a cluster, for the controllers that tell all of them the
// same thing, and reaches them.
package reach

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	listers "github.com/momentohq/valkey-operator/pkg/generated/listers/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Member is a node of a cluster whose pod is not gone.
type Member struct {
	// Name is the ValkeyNode's and the pod's.
	Name string
	// Addr is "ip:port", ID the server's: it must be this one that answers there. Both are empty
	// unless IsUp.
	Addr string
	ID   topology.NodeID
}

// IsUp says whether the member's server can be told anything: its pod runs, and which server it is
// has been recorded.
func (m Member) IsUp() bool { return m.Addr != "" && m.ID != "" }

// Finder reads caches.
type Finder struct {
	Nodes listers.ValkeyNodeLister
	Pods  corelisters.PodLister
}

// Members are the cluster's, by name. A node without a pod, or whose pod is gone or going, is none.
func (f Finder) Members(cluster *v1alpha1.ValkeyCluster) ([]Member, error) {
	nodes, err := f.Nodes.ValkeyNodes(cluster.Namespace).List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list ValkeyNodes: %w", err)
	}
	var out []Member
	for _, n := range nodes {
		if !metav1.IsControlledBy(n, cluster) || n.Status.PodUID == "" {
			continue
		}
		pod, err := f.Pods.Pods(n.Namespace).Get(n.Name)
		if err != nil || pod.UID != types.UID(n.Status.PodUID) || pod.DeletionTimestamp != nil {
			continue
		}
		phase := valkeynode.Phase(pod)
		if phase == corev1.PodFailed || phase == corev1.PodSucceeded {
			continue
		}
		m := Member{Name: n.Name}
		if phase == corev1.PodRunning && pod.Status.PodIP != "" && n.Status.NodeID != "" {
			m.Addr = net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(v1alpha1.PortValkey))
			m.ID = topology.NodeID(n.Status.NodeID)
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// AreUp says whether there are members and all of them are up.
func AreUp(members []Member) bool {
	return len(members) > 0 && !slices.ContainsFunc(members, func(m Member) bool { return !m.IsUp() })
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

// AccessTo is for the servers of a cluster whose passwords are in the Secret; the domain ends the DNS names of Services.
func AccessTo(cluster *v1alpha1.ValkeyCluster, auth *corev1.Secret, ca []byte, domain string) Access {
	return Access{
		Password: string(auth.Data[v1alpha1.SecretKeyOperatorPassword]), CA: ca,
		Suffix: "." + cluster.Name + "." + cluster.Namespace + ".svc." + domain,
	}
}

// Server is one member's server. See client.Node and client.Dialer for what each promises.
type Server interface {
	LoadACL(ctx context.Context) error
	ACLRevision(ctx context.Context) (string, error)
	SetConfig(ctx context.Context, settings map[string]string) error
	Certificate(ctx context.Context) (*x509.Certificate, error)
	Look(ctx context.Context) (topology.Server, error)
}

// Connect gives the way to a member's server.
type Connect func(Access, Member) (Server, error)

// Dialing is the Connect of real life. The pool is shared by all clusters.
func Dialing(pool *client.Pool) Connect {
	return func(a Access, m Member) (Server, error) {
		d := client.Dialer{Password: a.Password, Pool: pool}
		if a.CA != nil {
			config, err := client.TLSConfig(a.CA, m.Name+a.Suffix)
			if err != nil {
				return nil, fmt.Errorf("trust the cluster's certificates: %w", err)
			}
			d.TLS = config
		}
		return dialed{Node: d.Node(m.Addr, m.ID), dialer: d, addr: m.Addr}, nil
	}
}

type dialed struct {
	client.Node
	dialer client.Dialer
	addr   string
}

func (d dialed) Certificate(ctx context.Context) (*x509.Certificate, error) {
	return d.dialer.Certificate(ctx, d.addr)
}

func (d dialed) Look(ctx context.Context) (topology.Server, error) { return d.dialer.Look(ctx, d.addr) }

// maxAtOnce bounds how many servers are talked to at once.
const maxAtOnce = 64

// Each calls work for all members that are up, many at once, and waits for all of them: one that is
// silent costs the others nothing. Results are in the order of the members.
func Each[T any](members []Member, work func(Member) T) []T {
	out := make([]T, len(members))
	var all sync.WaitGroup
	free := make(chan struct{}, maxAtOnce)
	for i, m := range members {
		if !m.IsUp() {
			continue
		}
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			out[i] = work(m)
		})
	}
	all.Wait()
	return out
}

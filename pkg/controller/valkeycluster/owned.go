package valkeycluster

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/controller/resolve"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

var clusterKind = v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyCluster)

// labelsOf are on everything that the operator makes for a cluster. The informers for
// Services and ConfigMaps select by managed-by.
func labelsOf(cluster *v1alpha1.ValkeyCluster) map[string]string {
	return map[string]string{
		v1alpha1.LabelInstance:  cluster.Name,
		v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
	}
}

func ownerOf(cluster *v1alpha1.ValkeyCluster) metav1.OwnerReference {
	return *metav1.NewControllerRef(cluster, clusterKind)
}

func ownerApply(cluster *v1alpha1.ValkeyCluster) *metaapply.OwnerReferenceApplyConfiguration {
	o := ownerOf(cluster)
	return metaapply.OwnerReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

// podSelector is which pods the headless Service names.
func podSelector(cluster *v1alpha1.ValkeyCluster) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:     v1alpha1.LabelNameValue,
		v1alpha1.LabelInstance: cluster.Name,
	}
}

// service is the headless Service (contract §2). Addresses are published before pods are ready:
// a cluster that is forming is not ready, and its TLS names must resolve.
func service(cluster *v1alpha1.ValkeyCluster) *coreapply.ServiceApplyConfiguration {
	port := func(name string, number int32) *coreapply.ServicePortApplyConfiguration {
		return coreapply.ServicePort().WithName(name).WithPort(number).
			WithTargetPort(intstr.FromInt32(number)).WithProtocol(corev1.ProtocolTCP)
	}
	return coreapply.Service(cluster.Name, cluster.Namespace).
		WithLabels(labelsOf(cluster)).
		WithOwnerReferences(ownerApply(cluster)).
		WithSpec(coreapply.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(true).
			WithSelector(podSelector(cluster)).
			WithPorts(port(v1alpha1.PortValkeyName, v1alpha1.PortValkey), port(v1alpha1.PortBusName, v1alpha1.PortBus)))
}

// isService says whether a Service is as service makes it. Only what the operator sets counts: the
// API server and others add fields of their own.
func isService(have *corev1.Service, cluster *v1alpha1.ValkeyCluster) bool {
	if have.Spec.ClusterIP != corev1.ClusterIPNone || !have.Spec.PublishNotReadyAddresses ||
		!maps.Equal(have.Spec.Selector, podSelector(cluster)) || !isLabelled(have, cluster) {
		return false
	}
	want := service(cluster).Spec.Ports
	return len(have.Spec.Ports) == len(want) && !slices.ContainsFunc(want, func(w coreapply.ServicePortApplyConfiguration) bool {
		return !slices.ContainsFunc(have.Spec.Ports, func(h corev1.ServicePort) bool {
			return h.Name == *w.Name && h.Port == *w.Port && h.TargetPort == *w.TargetPort && h.Protocol == *w.Protocol
		})
	})
}

func isLabelled(have metav1.Object, cluster *v1alpha1.ValkeyCluster) bool {
	for key, value := range labelsOf(cluster) {
		if have.GetLabels()[key] != value {
			return false
		}
	}
	return metav1.IsControlledBy(have, cluster)
}

// aclConfigMap is the ConfigMap with users.acl.
func aclConfigMap(cluster *v1alpha1.ValkeyCluster, file string) *coreapply.ConfigMapApplyConfiguration {
	return coreapply.ConfigMap(cluster.Name+v1alpha1.SuffixACLConfigMap, cluster.Namespace).
		WithLabels(labelsOf(cluster)).
		WithOwnerReferences(ownerApply(cluster)).
		WithData(map[string]string{v1alpha1.ConfigMapKeyACL: file})
}

// newNode is a ValkeyNode with everything that it is made from, frozen. Its finalizer is there
// from the start: there is no moment in which it could go without its pod.
func newNode(on stage, op controller.Config, name string, n plan.NewNode) *v1alpha1.ValkeyNode {
	cluster, from := on.cluster, on.resolved
	node := &v1alpha1.ValkeyNode{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: cluster.Namespace,
			Labels:          labelsOf(cluster),
			Finalizers:      []string{v1alpha1.FinalizerNode},
			OwnerReferences: []metav1.OwnerReference{ownerOf(cluster)},
		},
		Spec: v1alpha1.ValkeyNodeSpec{
			ClusterName: cluster.Name,
			Image:       from.Image,
			CPU:         from.CPU,
			Memory:      from.Memory,
			ShardIndex:  int32(n.Shard),
			Placement:   placement(cluster.Spec.Placement, op.DefaultZoneSpread),
			Lifecycle:   v1alpha1.NodeLifecycleJoining,
			Revision:    config.Revision(from.Inputs(cluster.Spec.Placement)),
		},
	}
	if n.Join != plan.JoinNone {
		node.Labels[v1alpha1.LabelJoinType] = string(n.Join)
	}
	if restart := cluster.Annotations[v1alpha1.AnnotationRestart]; restart != "" {
		node.Annotations = map[string]string{v1alpha1.AnnotationRestart: restart}
	}
	var tls *config.TLS
	if cluster.Spec.TLS != nil {
		node.Spec.TLSSecret = on.tlsSecret
		tls = &config.TLS{Hostname: name + domainSuffix(cluster, op.ClusterDomain)}
	}
	node.Spec.ValkeySettings = config.Freeze(from.Settings, tls)
	return node
}

// domainSuffix follows a pod's name in its DNS name.
func domainSuffix(cluster *v1alpha1.ValkeyCluster, domain string) string {
	return "." + cluster.Name + "." + cluster.Namespace + ".svc." + domain
}

// placement is the cluster's with the operator's default filled in.
func placement(from *v1alpha1.Placement, spread v1alpha1.ZoneSpread) *v1alpha1.Placement {
	out := from.DeepCopy()
	if out == nil {
		out = &v1alpha1.Placement{}
	}
	if out.ZoneSpread == "" {
		out.ZoneSpread = spread
	}
	return out
}

// nodeTimeout is the servers' cluster-node-timeout, which config forces (contract §3).
const nodeTimeout = 5 * time.Second

// targetOf is what the planner is to reach. While a cluster is being formed its shape is that of
// the snapshot; everything else is read live (contract §1).
func targetOf(cluster *v1alpha1.ValkeyCluster, from resolve.Resolved, op controller.Config, nodes []*v1alpha1.ValkeyNode) plan.Target {
	now := from.Inputs(cluster.Spec.Placement)
	t := plan.Target{
		Shards:      int(cluster.Spec.Shards),
		Replicas:    int(cluster.Spec.ReplicasPerShard),
		Revisions:   []string{config.Revision(now)},
		Restart:     cluster.Annotations[v1alpha1.AnnotationRestart],
		Paused:      isPaused(cluster),
		Failover:    op.Failover,
		NodeTimeout: nodeTimeout,
	}
	if s := cluster.Status.TargetSpec; s != nil {
		t.Shards, t.Replicas = int(s.Shards), int(s.ReplicasPerShard)
	}
	for _, n := range nodes {
		// Hashed in a way that only a newer release knows: nobody here can call it outdated.
		if !config.Outdated(n.Spec.Revision, now) && !slices.Contains(t.Revisions, n.Spec.Revision) {
			t.Revisions = append(t.Revisions, n.Spec.Revision)
		}
	}
	return t
}

func isPaused(cluster *v1alpha1.ValkeyCluster) bool {
	return cluster.Annotations[v1alpha1.AnnotationPaused] == "true"
}

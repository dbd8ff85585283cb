package valkeynode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/controller"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// containerName is that of the only container in a node's pod.
const containerName = "valkey"

// Phase is how far a node's pod is. A server that has ended never runs again (restartPolicy Never), so the end of
// its container is that of the pod: a second before the kubelet says so, which first takes the pod down, and also where
// a container that somebody injected lives on.
func Phase(pod *corev1.Pod) corev1.PodPhase {
	end := End(pod)
	switch {
	case end == nil:
		return pod.Status.Phase
	case end.ExitCode == 0:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// End is how the pod's server ended; nil while it may run. That the kubelet lost sight of a container proves
// nothing.
func End(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == containerName && c.State.Terminated != nil && c.State.Terminated.Reason != "ContainerStatusUnknown" {
			return c.State.Terminated
		}
	}
	return nil
}

// The volumes of a node's pod.
const (
	volumeConfig = "config"
	volumeACL    = "acl"
	volumeAuth   = "auth"
	volumeTLS    = "tls"
	volumeData   = "data"
	volumeTmp    = "tmp"
)

// secretMode lets the pod's group read and nobody else: the server runs with it by fsGroup.
const secretMode int32 = 0o440

// PodLabels are on a node's pod from its creation; valkey.gomomento.com/role comes later.
func PodLabels(node *v1alpha1.ValkeyNode) map[string]string {
	return map[string]string{
		v1alpha1.LabelName:       v1alpha1.LabelNameValue,
		v1alpha1.LabelInstance:   node.Spec.ClusterName,
		v1alpha1.LabelManagedBy:  v1alpha1.LabelManagedByValue,
		v1alpha1.LabelShardIndex: strconv.Itoa(int(node.Spec.ShardIndex)),
	}
}

func ownerReference(node *v1alpha1.ValkeyNode) metav1.OwnerReference {
	return *metav1.NewControllerRef(node, v1alpha1.SchemeGroupVersion.WithKind(v1alpha1.KindValkeyNode))
}

// ConfigMap holds the node's valkey.conf. It never changes, and says so: the kubelet then
// need not watch it. An error is in the user's settings.
func ConfigMap(node *v1alpha1.ValkeyNode) (*corev1.ConfigMap, error) {
	text, err := config.Render(node.Spec.ValkeySettings)
	if err != nil {
		return nil, fmt.Errorf("render valkey.conf: %w", err)
	}
	immutable := true
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: node.Namespace, Name: node.Name + v1alpha1.SuffixNodeConfigMap,
			Labels: map[string]string{
				v1alpha1.LabelInstance:  node.Spec.ClusterName,
				v1alpha1.LabelManagedBy: v1alpha1.LabelManagedByValue,
			},
			OwnerReferences: []metav1.OwnerReference{ownerReference(node)},
		},
		Immutable: &immutable,
		Data:      map[string]string{v1alpha1.ConfigMapKeyConfig: text},
	}, nil
}

// Pod is the node's one pod (contract §2). Annotations are those that the cluster asks for now.
func Pod(node *v1alpha1.ValkeyNode, annotations map[string]string, cfg controller.Config) *corev1.Pod {
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: node.Namespace, Name: node.Name,
			Labels:          PodLabels(node),
			Annotations:     maps.Clone(annotations),
			OwnerReferences: []metav1.OwnerReference{ownerReference(node)},
		},
		Spec: corev1.PodSpec{
			// A server that restarts in place comes back empty under its old ID, and its
			// replicas copy the emptiness.
			RestartPolicy: corev1.RestartPolicyNever,
			// {pod}.{cluster}.{namespace}.svc.{domain} resolves by these two.
			Hostname:                     node.Name,
			Subdomain:                    node.Spec.ClusterName,
			AutomountServiceAccountToken: &no,
			EnableServiceLinks:           &no,
			SecurityContext:              podSecurity(cfg.PodUser),
			Tolerations: []corev1.Toleration{{
				Key: corev1.LabelArchStable, Operator: corev1.TolerationOpEqual, Value: "arm64",
				Effect: corev1.TaintEffectNoSchedule,
			}},
			Containers: []corev1.Container{container(node)},
			Volumes:    volumes(node),
		},
	}
	place(&pod.Spec, node, cfg.DefaultZoneSpread)
	return pod
}

func podSecurity(user *int64) *corev1.PodSecurityContext {
	yes := true
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: user, RunAsGroup: user, FSGroup: user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func container(node *v1alpha1.ValkeyNode) corev1.Container {
	yes, no := true, false
	resources := corev1.ResourceList{}
	if node.Spec.CPU != nil {
		resources[corev1.ResourceCPU] = *node.Spec.CPU
	}
	if node.Spec.Memory != nil {
		resources[corev1.ResourceMemory] = *node.Spec.Memory
	}
	return corev1.Container{
		Name:    containerName,
		Image:   node.Spec.Image,
		Command: []string{"valkey-server"},
		// Without an announced address a lone node tells its clients an empty one. It is an
		// argument since a file cannot hold what is only known when the pod runs.
		Args: []string{config.File, "--cluster-announce-ip", "$(POD_IP)"},
		Env: []corev1.EnvVar{{Name: "POD_IP", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}},
		Ports: []corev1.ContainerPort{
			{Name: v1alpha1.PortValkeyName, ContainerPort: v1alpha1.PortValkey},
			{Name: v1alpha1.PortBusName, ContainerPort: v1alpha1.PortBus},
		},
		Resources:    corev1.ResourceRequirements{Requests: resources, Limits: maps.Clone(resources)},
		VolumeMounts: mounts(node),
		LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: ping(node)}},
			PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 6,
		},
		// What the server said before it exited is the best explanation there is.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// ping asks without credentials and without -e: NOAUTH and LOADING are answers of a living
// server; a stopped one hangs until the probe's timeout.
func ping(node *v1alpha1.ValkeyNode) []string {
	command := []string{"valkey-cli", "-p", strconv.Itoa(v1alpha1.PortValkey)}
	if node.Spec.TLSSecret != "" {
		command = append(command, "--tls", "--insecure")
	}
	return append(command, "PING")
}

func mounts(node *v1alpha1.ValkeyNode) []corev1.VolumeMount {
	out := []corev1.VolumeMount{
		{Name: volumeConfig, MountPath: config.File, SubPath: v1alpha1.ConfigMapKeyConfig, ReadOnly: true},
		{Name: volumeACL, MountPath: "/etc/valkey/acl", ReadOnly: true},
		{Name: volumeAuth, MountPath: "/etc/valkey/auth", ReadOnly: true},
		{Name: volumeData, MountPath: config.DataDir},
		{Name: volumeTmp, MountPath: "/tmp"},
	}
	if node.Spec.TLSSecret != "" {
		out = append(out, corev1.VolumeMount{Name: volumeTLS, MountPath: config.TLSDir, ReadOnly: true})
	}
	return out
}

func volumes(node *v1alpha1.ValkeyNode) []corev1.Volume {
	cluster := node.Spec.ClusterName
	out := []corev1.Volume{
		{Name: volumeConfig, VolumeSource: configMapSource(node.Name + v1alpha1.SuffixNodeConfigMap)},
		// A whole directory: the kubelet refreshes it when the file changes.
		{Name: volumeACL, VolumeSource: configMapSource(cluster + v1alpha1.SuffixACLConfigMap)},
		// Only the one key: the operator's own password is none of the node's business.
		{Name: volumeAuth, VolumeSource: secretSource(cluster+v1alpha1.SuffixAuthSecret, v1alpha1.SecretKeyPrimaryAuth)},
		{Name: volumeData, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	if node.Spec.TLSSecret != "" {
		out = append(out, corev1.Volume{Name: volumeTLS, VolumeSource: secretSource(node.Spec.TLSSecret,
			v1alpha1.SecretKeyTLSCert, v1alpha1.SecretKeyTLSKey, v1alpha1.SecretKeyTLSCA)})
	}
	return out
}

func configMapSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

func secretSource(name string, keys ...string) corev1.VolumeSource {
	mode := secretMode
	source := &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode}
	for _, key := range keys {
		source.Items = append(source.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return corev1.VolumeSource{Secret: source}
}

// place says where the pod may run (contract §2): zones and selector are hard, each shard
// spreads over hosts softly and over zones as hard as was asked for.
func place(spec *corev1.PodSpec, node *v1alpha1.ValkeyNode, zoneSpread v1alpha1.ZoneSpread) {
	if p := node.Spec.Placement; p != nil {
		spec.NodeSelector = maps.Clone(p.NodeSelector)
		if len(p.Zones) > 0 {
			spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(p.Zones),
					}}}},
				}}}
		}
		if p.ZoneSpread != "" {
			zoneSpread = p.ZoneSpread
		}
	}
	required := zoneSpread == v1alpha1.ZoneSpreadRequired
	zones := corev1.ScheduleAnyway
	if required {
		zones = corev1.DoNotSchedule
	}
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		spread(node, corev1.LabelHostname, corev1.ScheduleAnyway, v1alpha1.LabelShardIndex),
		spread(node, corev1.LabelTopologyZone, zones, v1alpha1.LabelShardIndex),
	}
	if required {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints,
			spread(node, corev1.LabelTopologyZone, corev1.ScheduleAnyway))
	}
}

// spread is over the cluster's pods, or those that share the value of a label with this one.
func spread(node *v1alpha1.ValkeyNode, topology string, otherwise corev1.UnsatisfiableConstraintAction, sameLabel ...string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: topology, WhenUnsatisfiable: otherwise,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{
			v1alpha1.LabelName:     v1alpha1.LabelNameValue,
			v1alpha1.LabelInstance: node.Spec.ClusterName,
		}},
		MatchLabelKeys: sameLabel,
	}
}

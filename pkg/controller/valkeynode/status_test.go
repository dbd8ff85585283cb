package valkeynode

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// podIs sets what the scheduler and the kubelet say about the pod, and runs a pass.
func (l *lab) podIs(status corev1.PodStatus) {
	l.t.Helper()
	pod := l.pod()
	pod.Status = status
	l.put(l.kube.Tracker(), podsGVR, pod)
	l.look()
	l.pass()
	l.look()
}

var (
	unschedulable = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."}}}
	starting = corev1.PodStatus{Phase: corev1.PodPending}
	running  = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}
)

func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
}

func ended(code int32, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}}}}
}

func TestAHealthyStartCostsNoWriteForTheCondition(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	for _, status := range []corev1.PodStatus{{}, starting, waiting("ContainerCreating", ""), running} {
		l.podIs(status)
	}
	if diff := cmp.Diff(startWrites, l.writes); diff != "" {
		t.Error(diff)
	}
}

func TestTroubleAndItsEndAreToldOnceEach(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	for range 3 {
		l.podIs(unschedulable)
	}
	if got := l.conditionNow(v1alpha1.ConditionPodRunning); got != "False Unschedulable: 0/3 nodes are available: 3 Insufficient cpu." {
		t.Error(got)
	}
	for range 3 {
		l.podIs(running)
	}
	if got := l.conditionNow(v1alpha1.ConditionPodRunning); got != "True Running: the pod runs" {
		t.Error(got)
	}
	want := []string{"Warning Unschedulable 0/3 nodes are available: 3 Insufficient cpu.", "Normal Running the pod runs"}
	if diff := cmp.Diff(want, l.news()); diff != "" || l.count("update valkeynodes") != 3 {
		t.Errorf("%s, %v", diff, l.writes)
	}
}

func TestAKubeletThatGoesToAndFroIsNotFollowed(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	for range 3 {
		l.podIs(waiting("ErrImagePull", `failed to pull "example/valkey:nine": not found`))
		l.podIs(waiting("ImagePullBackOff", `Back-off pulling image "example/valkey:nine"`))
	}
	if got := l.conditionNow(v1alpha1.ConditionPodRunning); got != `False ImagePullFailed: failed to pull "example/valkey:nine": not found` {
		t.Error(got)
	}
	if news := l.news(); len(news) != 1 || l.count("update valkeynodes") != 2 {
		t.Errorf("%v, %v", news, l.writes)
	}
}

func TestWhatAPodsStateIsCalled(t *testing.T) {
	long := strings.Repeat("x", 3*maxMessage)
	for _, test := range []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{"scheduling gate", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated", Message: "gated"}}}, "SchedulingGated: gated"},
		{"no config", waiting("CreateContainerConfigError", `secret "x" not found`), `CreateContainerConfigError: secret "x" not found`},
		{"bad name", waiting("InvalidImageName", "couldn't parse"), "InvalidImageName: couldn't parse"},
		{"exit", ended(1, "Error", "\n*** FATAL CONFIG FILE ERROR ***\n"),
			"ServerExited: valkey-server ended with exit code 1 (Error): *** FATAL CONFIG FILE ERROR ***"},
		{"out of memory", ended(137, "OOMKilled", ""), "ServerExited: valkey-server ended with exit code 137 (OOMKilled)"},
		{"evicted", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}, "Evicted: low on memory"},
		{"succeeded", corev1.PodStatus{Phase: corev1.PodSucceeded}, "ServerExited: the pod ended as Succeeded"},
		{"a long log", ended(1, "Error", long), "ServerExited: … " + strings.Repeat("x", maxMessage)},
	} {
		var status v1alpha1.ValkeyNodeStatus
		if !SetPodRunning(&status, 7, &corev1.Pod{Status: test.status}) {
			t.Errorf("%s: nothing changed", test.name)
		}
		c := status.Conditions[0]
		if got := c.Reason + ": " + c.Message; got != test.want || c.ObservedGeneration != 7 || status.ObservedGeneration != 7 {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if SetPodRunning(&status, 7, &corev1.Pod{Status: test.status}) {
			t.Errorf("%s: the same again is a change", test.name)
		}
	}
}

func TestARecordedPodThatTheCacheLacksIsLookedForLive(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	// The node's event came before the pod's.
	pod := l.pod()
	l.kill()
	l.look()
	l.put(l.kube.Tracker(), podsGVR, pod)
	l.pass()
	if got := l.conditionNow(v1alpha1.ConditionPodRunning); got != "" {
		t.Error(got)
	}
}

package valkeycluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) metav1.Time {
	return metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
}

func ended(code int32, seconds int, message string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "valkey", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: "Error", FinishedAt: at(seconds), Message: message}}}}
}

func waiting(reason, message string) []corev1.ContainerStatus {
	return []corev1.ContainerStatus{{Name: "valkey", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
}

// deleted asks for the pod's end at a time, with 30 s to do it.
func deleted(pod corev1.Pod, asked int) corev1.Pod {
	grace, deadline := int64(30), at(asked+30)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &deadline, &grace
	return pod
}

func TestWhatAPodsStateMeans(t *testing.T) {
	crashed := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended(1, -10, "Bad directive or wrong number of arguments\n")}}
	crashedWhy := "container exited with code 1: Bad directive or wrong number of arguments"
	evicted := crashed
	evicted.Status.Reason, evicted.Status.Message = "Evicted", "The node was low on resource: memory."
	drained := crashed
	drained.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"}}
	for _, test := range []struct {
		name string
		pod  corev1.Pod
		want plan.Pod
	}{
		{"a pod that runs",
			corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1",
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}},
			plan.Pod{UID: "u", Phase: plan.PodRunning, Ready: true, IP: "10.0.0.1", Host: "n1", Zone: "z"}},
		{"a kubelet that is not heard of says nothing about the process",
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodUnknown}}, plan.Pod{Phase: plan.PodRunning, Zone: "z"}},
		{"no place for it",
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient cpu."}}}},
			plan.Pod{Phase: plan.PodPending, Reason: "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.", Zone: "z"}},
		{"on its way", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ContainerCreating", "")}},
			plan.Pod{Phase: plan.PodPending, Zone: "z"}},
		{"no image", corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting("ErrImagePull", "not found")}},
			plan.Pod{Phase: plan.PodPending, Reason: "ErrImagePull: not found", Zone: "z"}},
		{"a server that exits by itself", crashed,
			plan.Pod{Phase: plan.PodFailed, Crashed: true, EndedFor: 10 * time.Second, Reason: crashedWhy, Zone: "z"}},
		{"a server that has just exited, before the kubelet has taken the pod down",
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: ended(137, 0, "Background saving terminated")}},
			plan.Pod{Phase: plan.PodFailed, Crashed: true, IP: "10.0.0.1", Reason: "container exited with code 137", Zone: "z"}},
		{"a server that has ended well, beside a container that somebody injected",
			deleted(corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: append(ended(0, 0, ""),
				corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})}}, -1),
			plan.Pod{Phase: plan.PodSucceeded, Deleting: true, Overdue: -29 * time.Second, Zone: "z"}},
		{"a container that the kubelet lost sight of is no proof",
			corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "valkey", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown"}}}}}},
			plan.Pod{Phase: plan.PodRunning, Reason: "container exited with code 137 (ContainerStatusUnknown)", Zone: "z"}},
		{"an evicted pod did not crash", evicted,
			plan.Pod{Phase: plan.PodFailed, Reason: "Evicted: The node was low on resource: memory.", Zone: "z"}},
		{"a drained pod did not crash", drained, plan.Pod{Phase: plan.PodFailed, Reason: crashedWhy, Zone: "z"}},
		{"what ends after its deletion was asked for did not crash", deleted(crashed, -20),
			plan.Pod{Phase: plan.PodFailed, Deleting: true, Overdue: -10 * time.Second, Reason: crashedWhy, Zone: "z"}},
		{"what had ended before did", deleted(crashed, -5),
			plan.Pod{Phase: plan.PodFailed, Deleting: true, Overdue: -25 * time.Second, Crashed: true, EndedFor: 10 * time.Second, Reason: crashedWhy, Zone: "z"}},
		{"a deadline that has passed", deleted(corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}, -70),
			plan.Pod{Phase: plan.PodRunning, Deleting: true, Overdue: 40 * time.Second, Zone: "z"}},
	} {
		if diff := cmp.Diff(test.want, podFacts(&test.pod, "z", noon)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestTheLastWordsOfAServerAreItsLast(t *testing.T) {
	long := strings.Repeat("an early line of the log\n", 100) + "FATAL CONFIG FILE ERROR\n"
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: ended(1, 0, long+"\xff")}}
	why := podFacts(&pod, "", noon).Reason
	if len(why) > maxTail+100 || !strings.Contains(why, "FATAL CONFIG FILE ERROR") || strings.Contains(why, ": n early") {
		t.Errorf("%d bytes: %q", len(why), why)
	}
}

package valkeycluster

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/momentohq/valkey-operator/pkg/controller/valkeynode"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// maxTail is how much of a dead container's last words is shown, in bytes.
const maxTail = 600

// podFacts says what Kubernetes knows of a pod in the planner's words. zone is that of
// its host, as recorded. The clocks of the control plane and of the operator are taken to agree to
// within seconds.
func podFacts(pod *corev1.Pod, zone string, now time.Time) plan.Pod {
	facts := plan.Pod{
		UID:   string(pod.UID),
		Phase: podPhase(pod),
		Ready: podIsReady(pod),
		IP:    pod.Status.PodIP,
		Host:  pod.Spec.NodeName,
		Zone:  zone,
	}
	if pod.DeletionTimestamp != nil {
		facts.Deleting = true
		facts.Overdue = now.Sub(pod.DeletionTimestamp.Time)
	}
	facts.Reason = podTrouble(pod)
	if end := selfEnd(pod); end != nil {
		facts.Crashed = true
		facts.EndedFor = max(now.Sub(end.FinishedAt.Time), 0)
	}
	return facts
}

func podPhase(pod *corev1.Pod) plan.Phase {
	switch valkeynode.Phase(pod) {
	case corev1.PodRunning, corev1.PodUnknown:
		// Unknown means that the kubelet is not heard of: the process may well be alive.
		return plan.PodRunning
	case corev1.PodFailed:
		return plan.PodFailed
	case corev1.PodSucceeded:
		return plan.PodSucceeded
	default:
		return plan.PodPending
	}
}

func podIsReady(pod *corev1.Pod) bool {
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// podTrouble is why the pod does not run, in the scheduler's, the kubelet's or the
// server's own words; empty while it runs or is merely on its way.
func podTrouble(pod *corev1.Pod) string {
	if pod.Status.Reason != "" { // evicted, rejected by the kubelet, ...
		return words(pod.Status.Reason, pod.Status.Message)
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		// SchedulingGated and the like are trouble as well: only a person ends them.
		return words(c.Reason, c.Message)
	}
	for _, c := range containerStates(pod) {
		switch {
		case c.Terminated != nil && (c.Terminated.ExitCode != 0 || pod.DeletionTimestamp == nil):
			return lastWords(c.Terminated)
		case c.Waiting != nil && !isOnItsWay(c.Waiting.Reason):
			return words(c.Waiting.Reason, c.Waiting.Message)
		}
	}
	return ""
}

// isOnItsWay tells the kubelet's words for work from those for trouble.
func isOnItsWay(reason string) bool {
	return reason == "" || reason == "ContainerCreating" || reason == "PodInitializing"
}

func containerStates(pod *corev1.Pod) []corev1.ContainerState {
	var out []corev1.ContainerState
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.ExitCode != 0 {
			out = append(out, c.State)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		out = append(out, c.State)
	}
	return out
}

// selfEnd is how the container ended if nobody asked it to: nil for one that runs, and
// for a pod that was deleted, evicted, drained or preempted first.
func selfEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod.Status.Reason != "" {
		return nil
	}
	if c := podCondition(pod, corev1.DisruptionTarget); c != nil && c.Status == corev1.ConditionTrue {
		return nil
	}
	if end := valkeynode.End(pod); end != nil && !askedToEnd(pod, end.FinishedAt.Time) {
		return end
	}
	return nil
}

// askedToEnd says whether the pod's deletion was asked for before t. Its deletion timestamp is the
// deadline, which is the time of the request and the grace period after it; both are
// rounded to seconds.
func askedToEnd(pod *corev1.Pod, t time.Time) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	asked := pod.DeletionTimestamp.Time
	if grace := pod.DeletionGracePeriodSeconds; grace != nil {
		asked = asked.Add(-time.Duration(*grace) * time.Second)
	}
	return !t.Before(asked.Add(-time.Second))
}

// killed is the exit code of a process that SIGKILL ended.
const killed = 137

func lastWords(end *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("container exited with code %d", end.ExitCode)
	if end.Reason != "" && end.Reason != "Error" && end.Reason != "Completed" {
		text += " (" + end.Reason + ")"
	}
	if end.ExitCode == killed {
		return text // its log says nothing about who killed it
	}
	return words(text, strings.ReplaceAll(tail(end.Message), "\n", " | "))
}

// tail is the end of a text, from the start of a line where one is near.
func tail(text string) string {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "?"))
	if len(text) <= maxTail {
		return text
	}
	text = text[len(text)-maxTail:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		return rest
	}
	return strings.ToValidUTF8(text, "")
}

// words joins a reason and a message; either may be empty.
func words(reason, message string) string {
	switch {
	case message == "":
		return reason
	case reason == "":
		return message
	}
	return reason + ": " + message
}

package valkeynode

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// Reasons of the condition PodCreated, besides those that Kubernetes itself gives.
const (
	reasonCreated       = "Created"
	reasonNameTaken     = "NameTaken"
	reasonQuotaExceeded = "QuotaExceeded"
	reasonForbidden     = "Forbidden"
	reasonInvalid       = "Invalid"
	reasonBadSettings   = "BadSettings"
)

// Reasons of the condition PodRunning, besides those that Kubernetes itself gives.
const (
	ReasonRunning       = "Running"
	ReasonStarting      = "Starting"
	ReasonUnschedulable = corev1.PodReasonUnschedulable
	// ReasonPullFailed stands for ErrImagePull and ImagePullBackOff, between which the kubelet
	// goes to and fro.
	ReasonPullFailed = "ImagePullFailed"
	ReasonExited     = "ServerExited"
	ReasonGone       = "PodGone"
)

// maxMessage is what of a message is kept: a log's tail can be long.
const maxMessage = 2048

// SetPodRunning writes the condition PodRunning from the node's pod, nil for one that is
// absent by a live read. It says whether anything that people read changed. Pure: whoever
// calls it for the same pod writes the same.
func SetPodRunning(status *v1alpha1.ValkeyNodeStatus, generation int64, pod *corev1.Pod) bool {
	return setCondition(status, podRunning(pod), generation)
}

// worthAWrite says whether the condition should be written now for its own sake. While a
// healthy pod starts it waits for the write that brings address and ID, so that forming a
// cluster does not cost one more write a node.
func worthAWrite(status *v1alpha1.ValkeyNodeStatus, pod *corev1.Pod) bool {
	if meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPodRunning) != nil {
		return true
	}
	reason := podRunning(pod).Reason
	return reason != ReasonStarting && reason != ReasonRunning
}

func setCondition(status *v1alpha1.ValkeyNodeStatus, next metav1.Condition, generation int64) bool {
	next.ObservedGeneration = generation
	next.Message = clip(next.Message)
	old := meta.FindStatusCondition(status.Conditions, next.Type)
	if old != nil && old.Reason == ReasonPullFailed && next.Reason == ReasonPullFailed {
		next.Message = old.Message
	}
	if old != nil && old.Status == next.Status && old.Reason == next.Reason && old.Message == next.Message {
		return false
	}
	meta.SetStatusCondition(&status.Conditions, next)
	status.ObservedGeneration = generation
	return true
}

func clip(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	// The end of a log says more than its beginning.
	return "… " + strings.ToValidUTF8(message[len(message)-maxMessage:], "")
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func podRunning(pod *corev1.Pod) metav1.Condition {
	not := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionPodRunning, metav1.ConditionFalse, reason, message)
	}
	if pod == nil {
		return not(ReasonGone, "the pod was removed; a node never gets another")
	}
	switch Phase(pod) {
	case corev1.PodRunning:
		return condition(v1alpha1.ConditionPodRunning, metav1.ConditionTrue, ReasonRunning, "the pod runs")
	case corev1.PodFailed, corev1.PodSucceeded:
		return not(exited(pod))
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason != "" {
			return not(c.Reason, c.Message)
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; waiting != nil {
			switch waiting.Reason {
			case "", "ContainerCreating", "PodInitializing":
			case "ErrImagePull", "ImagePullBackOff":
				return not(ReasonPullFailed, waiting.Message)
			default:
				return not(waiting.Reason, waiting.Message)
			}
		}
	}
	return not(ReasonStarting, "the pod is scheduled or starts")
}

// exited says how a pod ended: evicted, killed, or its server's own last words.
func exited(pod *corev1.Pod) (reason, message string) {
	if pod.Status.Reason != "" {
		return pod.Status.Reason, pod.Status.Message
	}
	for _, c := range pod.Status.ContainerStatuses {
		if ended := c.State.Terminated; ended != nil {
			text := fmt.Sprintf("valkey-server ended with exit code %d (%s)", ended.ExitCode, ended.Reason)
			if last := strings.TrimSpace(ended.Message); last != "" {
				text += ": " + last
			}
			return ReasonExited, text
		}
	}
	return ReasonExited, "the pod ended as " + string(pod.Status.Phase)
}

// refusal puts what the API server said about the pod into the condition PodCreated. It is not
// ok if the error is none that a person has to mend.
func refusal(err error) (metav1.Condition, bool) {
	reason := ""
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		reason = reasonQuotaExceeded
	case apierrors.IsForbidden(err):
		reason = reasonForbidden
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		reason = reasonInvalid
	default:
		return metav1.Condition{}, false
	}
	message := err.Error()
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		message = status.Status().Message
	}
	return condition(v1alpha1.ConditionPodCreated, metav1.ConditionFalse, reason, message), true
}

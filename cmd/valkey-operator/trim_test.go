package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

func fatPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", ResourceVersion: "7", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "1"},
			OwnerReferences: []metav1.OwnerReference{{Name: "owner"}}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "valkey", Image: "i"}}, Volumes: []corev1.Volume{{Name: "v"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Reason: "r", Message: "m",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "valkey", Ready: true, Image: "i", ImageID: "sha256:…",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "last words"}}}}},
	}
}

func TestPodsKeepWhatIsReadAndNothingElse(t *testing.T) {
	want := fatPod()
	want.ManagedFields = nil
	want.Spec = corev1.PodSpec{NodeName: "n1"}
	want.Status.ContainerStatuses[0].Image, want.Status.ContainerStatuses[0].ImageID = "", ""
	got := any(fatPod())
	for range 2 {
		var err error
		if got, err = trim(got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheFileOfANodeIsDroppedAndTheUsersOfAClusterAreKept(t *testing.T) {
	yes := true
	file := func(kind string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"k": "v"}, ObjectMeta: metav1.ObjectMeta{
			OwnerReferences: []metav1.OwnerReference{{Kind: kind, Controller: &yes}}}}
	}
	for kind, kept := range map[string]int{v1alpha1.KindValkeyNode: 0, v1alpha1.KindValkeyCluster: 1} {
		got, err := trim(file(kind))
		if err != nil || len(got.(*corev1.ConfigMap).Data) != kept {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
}

func TestWhatIsNoObjectPassesUnchanged(t *testing.T) {
	tombstone := cache.DeletedFinalStateUnknown{Key: "ns/a"}
	if got, err := trim(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("%v, %v", got, err)
	}
}

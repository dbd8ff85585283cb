package valkeynode

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

var startWrites = []string{"create configmaps", "create pods", "update valkeynodes"}

func TestANodeGetsItsPodInThreeWritesAndThenNoMore(t *testing.T) {
	l := newLab(t, plainNode())
	for range 4 {
		l.pass()
		l.look()
	}
	if diff := cmp.Diff(startWrites, l.writes); diff != "" {
		t.Error(diff)
	}
	if got := l.node().Status.PodUID; got == "" || got != string(l.pod().UID) {
		t.Errorf("recorded %q, the pod is %q", got, l.pod().UID)
	}
	if got := l.pod().Annotations["example.com/team"]; got != "blue" {
		t.Errorf("the pod lacks the cluster's annotation: %q", got)
	}
	if news := l.news(); news != nil {
		t.Errorf("a healthy start is no news: %v", news)
	}
}

func TestACacheBehindOurOwnWriteIsWaitedFor(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	if again := l.pass(); again.RequeueAfter == 0 || len(l.writes) != len(startWrites) {
		t.Errorf("%v, %v", again, l.writes)
	}
}

// TestAProcessThatDiesAtAnyWriteLeavesWhatTheNextOneFinishes dies before and after each write of a
// start and of a removal.
func TestAProcessThatDiesAtAnyWriteLeavesWhatTheNextOneFinishes(t *testing.T) {
	dead := errors.New("the process died")
	life := func(t *testing.T, dieAt int, applied bool) *lab {
		l := newLab(t, plainNode())
		l.intercept = func(n int, _ string, isApplied bool) error {
			if n == dieAt && isApplied == applied {
				return dead
			}
			return nil
		}
		live := func(passes int) {
			for range passes {
				l.look()
				if _, err := l.sync(quiet, key); err != nil {
					if !errors.Is(err, dead) {
						t.Fatal(err)
					}
					l.restart()
				}
			}
		}
		live(3)
		if uid := l.node().Status.PodUID; uid == "" || l.pod() == nil || uid != string(l.pod().UID) {
			t.Errorf("no pod is recorded: %q", uid)
		}
		l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
		live(3)
		if l.pod() == nil || l.pod().DeletionTimestamp == nil {
			t.Error("the pod is not being deleted")
		}
		if l.node() == nil {
			t.Fatal("the node is gone before its pod")
		}
		l.kill()
		live(3)
		if l.node() != nil {
			t.Errorf("the node is not gone: %v", l.node().Finalizers)
		}
		return l
	}
	undisturbed := life(t, -1, false)
	want := append(slices.Clone(startWrites), "delete pods", "patch valkeynodes")
	if diff := cmp.Diff(want, undisturbed.writes); diff != "" {
		t.Fatal(diff)
	}
	for n := range want {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, applied %v", want[n], applied), func(t *testing.T) {
				l := life(t, n, applied)
				if pods := l.count("create pods"); pods > 2 {
					t.Errorf("%d tries to create the pod", pods)
				}
			})
		}
	}
}

func TestANodeWhosePodIsRecordedNeverGetsAnother(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	l.kill()
	l.look()
	l.pass()
	if l.pod() != nil || l.count("create pods") != 1 {
		t.Error("there is a second pod")
	}
	if got := l.conditionNow(v1alpha1.ConditionPodRunning); got != "False PodGone: the pod was removed; a node never gets another" {
		t.Error(got)
	}
}

func TestACacheThatDoesNotShowTheRecordedPodMakesNoSecondOne(t *testing.T) {
	l := newLab(t, plainNode())
	// Another process recorded a pod that is gone by now; our cache is from before.
	other := l.node()
	other.Status.PodUID = "of-the-last-leader"
	l.put(l.valkey.Tracker(), nodesGVR, other)
	l.pass()
	if len(l.writes) != 0 {
		t.Error(l.writes)
	}
}

func TestAPodFromBeforeTheProcessDiedIsAdoptedAndAStrangerIsNot(t *testing.T) {
	l := newLab(t, plainNode())
	mine := Pod(l.node(), nil, bestEffort)
	mine.UID = "left-behind"
	l.put(l.kube.Tracker(), podsGVR, mine)
	l.look()
	l.pass()
	if got := l.node().Status.PodUID; got != "left-behind" {
		t.Errorf("recorded %q", got)
	}
	l = newLab(t, plainNode())
	strange := Pod(l.node(), nil, bestEffort)
	strange.UID, strange.OwnerReferences[0].UID = "strange", "another-node"
	l.put(l.kube.Tracker(), podsGVR, strange)
	l.look()
	if again := l.pass(); again.RequeueAfter != retryRefused || l.node().Status.PodUID != "" {
		t.Errorf("%v, recorded %q", again, l.node().Status.PodUID)
	}
	if got := l.conditionNow(v1alpha1.ConditionPodCreated); got != `False NameTaken: pod "cache-0a1b2" exists and is not of this ValkeyNode` {
		t.Error(got)
	}
	// And is not deleted with the node.
	l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
	l.look()
	l.pass()
	if l.node() != nil || l.pod() == nil || l.pod().DeletionTimestamp != nil {
		t.Error("a stranger's pod was touched or waited for")
	}
}

func TestAConfigMapOfSomebodyElseIsNotUsed(t *testing.T) {
	l := newLab(t, plainNode())
	l.put(l.kube.Tracker(), filesGVR, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "cache-0a1b2-config"}})
	l.pass()
	if got := l.conditionNow(v1alpha1.ConditionPodCreated); l.pod() != nil || got != `False NameTaken: ConfigMap "cache-0a1b2-config" exists and is not of this ValkeyNode` {
		t.Error(got)
	}
}

// refuse makes the API server refuse pods until told otherwise.
func (l *lab) refuse(status metav1.Status) (accept func()) {
	l.intercept = func(_ int, write string, applied bool) error {
		if write == "create pods" && !applied {
			return &apierrors.StatusError{ErrStatus: status}
		}
		return nil
	}
	return func() { l.intercept = nil }
}

func TestARefusedPodIsToldOnceInTheServersWordsAndTriedAgain(t *testing.T) {
	for _, test := range []struct {
		name   string
		status metav1.Status
		want   string
	}{
		{"quota", metav1.Status{Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			Message: `pods "cache-0a1b2" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`},
			`False QuotaExceeded: pods "cache-0a1b2" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`},
		{"pod security", metav1.Status{Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			Message: `pods "cache-0a1b2" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`},
			`False Forbidden: pods "cache-0a1b2" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`},
		{"invalid", metav1.Status{Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity, Message: `Pod "cache-0a1b2" is invalid: spec.nodeSelector`},
			`False Invalid: Pod "cache-0a1b2" is invalid: spec.nodeSelector`},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t, plainNode())
			accept := l.refuse(test.status)
			for range 3 {
				if again := l.pass(); again.RequeueAfter != retryRefused {
					t.Errorf("tried again in %s", again.RequeueAfter)
				}
				l.look()
			}
			if got := l.conditionNow(v1alpha1.ConditionPodCreated); got != test.want {
				t.Error(got)
			}
			if news := l.news(); len(news) != 1 || l.count("update valkeynodes") != 1 {
				t.Errorf("told as %q in %v", news, l.writes)
			}
			accept()
			l.pass()
			if got := l.conditionNow(v1alpha1.ConditionPodCreated); l.pod() == nil || got != "True Created: the pod was created" {
				t.Error(got)
			}
		})
	}
}

func TestSettingsThatCannotBeRenderedAreTold(t *testing.T) {
	node := plainNode()
	node.Spec.ValkeySettings["Bad Key"] = "x"
	l := newLab(t, node)
	l.pass()
	if got := l.conditionNow(v1alpha1.ConditionPodCreated); got != `False BadSettings: render valkey.conf: valkey setting "Bad Key": not the name of a directive` {
		t.Error(got)
	}
}

func TestNothingIsCreatedOnceSomethingIsBeingDeleted(t *testing.T) {
	clustersGVR := v1alpha1.SchemeGroupVersion.WithResource("valkeyclusters")
	for name, arrange := range map[string]func(*lab){
		"the cluster": func(l *lab) {
			cluster, _ := l.valkey.Tracker().Get(clustersGVR, "app", "cache")
			l.setDeleted(l.valkey.Tracker(), clustersGVR, cluster, time.Now())
			l.look()
		},
		"the cluster, replaced by one of its name": func(l *lab) {
			cluster, _ := l.valkey.Tracker().Get(clustersGVR, "app", "cache")
			cluster.(*v1alpha1.ValkeyCluster).UID = "another"
			l.put(l.valkey.Tracker(), clustersGVR, cluster)
			l.look()
		},
		"the cluster, gone": func(l *lab) {
			if err := l.valkey.Tracker().Delete(clustersGVR, "app", "cache"); err != nil {
				t.Fatal(err)
			}
			l.look()
		},
		"the node, which the cache does not show yet": func(l *lab) {
			l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
		},
		"the node, gone, which the cache does not show yet": func(l *lab) {
			if err := l.valkey.Tracker().Delete(nodesGVR, "app", key.Name); err != nil {
				t.Fatal(err)
			}
		},
		"the node, leaving": func(l *lab) {
			node := l.node()
			node.Spec.Lifecycle = v1alpha1.NodeLifecycleLeaving
			l.put(l.valkey.Tracker(), nodesGVR, node)
			l.look()
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, plainNode())
			arrange(l)
			l.pass()
			if len(l.writes) != 0 {
				t.Error(l.writes)
			}
		})
	}
}

func TestANamespaceThatIsBeingDeletedIsNoError(t *testing.T) {
	l := newLab(t, plainNode())
	l.intercept = func(int, string, bool) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}}}}
	}
	l.pass()
	if news := l.news(); news != nil || l.conditionNow(v1alpha1.ConditionPodCreated) != "" {
		t.Errorf("told as trouble: %v", news)
	}
}

func TestWhoDoesNotLeadWritesNothing(t *testing.T) {
	l := newLab(t, plainNode())
	l.isLeader = false
	l.pass()
	if len(l.writes) != 0 {
		t.Error(l.writes)
	}
	l.isLeader = true
	l.pass()
	l.isLeader = false
	l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
	l.look()
	l.pass()
	l.kill()
	l.pass()
	if diff := cmp.Diff(startWrites, l.writes); diff != "" || l.node() == nil {
		t.Error(diff)
	}
}

func TestALostLeaseStopsBetweenTwoWrites(t *testing.T) {
	l := newLab(t, plainNode())
	l.intercept = func(_ int, write string, applied bool) error {
		if write == "create configmaps" && applied {
			l.isLeader = false
		}
		return nil
	}
	l.pass()
	if diff := cmp.Diff(startWrites[:1], l.writes); diff != "" {
		t.Error(diff)
	}
}

func TestAConflictIsLookedAtAgainAtOnce(t *testing.T) {
	l := newLab(t, plainNode())
	l.intercept = func(_ int, write string, applied bool) error {
		if write == "create pods" && applied {
			l.put(l.valkey.Tracker(), nodesGVR, l.node())
		}
		return nil
	}
	if again := l.pass(); again.RequeueAfter <= 0 || again.RequeueAfter > time.Second {
		t.Errorf("again in %s", again.RequeueAfter)
	}
	l.intercept = nil
	l.look()
	l.pass()
	if got := l.node().Status.PodUID; got != string(l.pod().UID) || l.count("create pods") != 2 {
		t.Errorf("recorded %q, %v", got, l.writes)
	}
}

func TestAFinalizerThatIsMissingIsAddedBeforeThereIsAPod(t *testing.T) {
	node := plainNode()
	node.Finalizers = nil
	l := newLab(t, node)
	l.pass()
	want := append([]string{"patch valkeynodes"}, startWrites...)
	if diff := cmp.Diff(want, l.writes); diff != "" || !slices.Contains(l.node().Finalizers, v1alpha1.FinalizerNode) {
		t.Errorf("%s, %v", diff, l.node().Finalizers)
	}
}

func TestAPodThatOutlivesItsDeletionIsNotWaitedForWithoutEnd(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	l.setDeleted(l.kube.Tracker(), podsGVR, l.pod(), time.Now().Add(-20*time.Second))
	l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
	l.look()
	if again := l.pass(); l.node() == nil || again.RequeueAfter < 9*time.Second || again.RequeueAfter > 12*time.Second {
		t.Errorf("its deadline passed 20 s ago: again in %s", again.RequeueAfter)
	}
	l.setDeleted(l.kube.Tracker(), podsGVR, l.pod(), time.Now().Add(-31*time.Second))
	l.pass()
	if l.node() != nil {
		t.Error("its deadline passed 31 s ago and it is still waited for")
	}
}

func TestANodeIsRemovedWhereItsClusterAndItsConfigMapAreGone(t *testing.T) {
	l := newLab(t, plainNode())
	l.pass()
	if err := errors.Join(
		l.valkey.Tracker().Delete(v1alpha1.SchemeGroupVersion.WithResource("valkeyclusters"), "app", "cache"),
		l.kube.Tracker().Delete(filesGVR, "app", "cache-0a1b2-config")); err != nil {
		t.Fatal(err)
	}
	l.kill()
	l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
	l.look()
	l.pass()
	if l.node() != nil {
		t.Error("it is still there")
	}
}

func TestAnotherFinalizerStaysAndIsNotWaitedFor(t *testing.T) {
	l := newLab(t, plainNode())
	node := l.node()
	node.Finalizers = append(node.Finalizers, "example.com/other")
	l.put(l.valkey.Tracker(), nodesGVR, node)
	l.setDeleted(l.valkey.Tracker(), nodesGVR, l.node(), time.Now())
	for range 3 {
		l.look()
		l.pass()
	}
	if diff := cmp.Diff([]string{"example.com/other"}, l.node().Finalizers); diff != "" || len(l.writes) != 1 {
		t.Errorf("%s, %v", diff, l.writes)
	}
}

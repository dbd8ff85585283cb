package valkeycluster

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/momentohq/valkey-operator/pkg/controller/loop"
	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// writes remembers what this controller wrote, by kind, until the caches have seen it. A
// pass on a cache behind its own last write would do things twice.
type writes struct {
	clusters, nodes, pods, services, configMaps *loop.Writes
}

func (w writes) all() []*loop.Writes {
	return []*loop.Writes{w.clusters, w.nodes, w.pods, w.services, w.configMaps}
}

func (w writes) isBehind(key cache.ObjectName) bool {
	for _, kind := range w.all() {
		if kind.Behind(key) {
			return true
		}
	}
	return false
}

func (w writes) forget(key cache.ObjectName) {
	for _, kind := range w.all() {
		kind.Forget(key)
	}
}

// notYet is an act that could not be carried out for a reason that passes by itself: the next
// look decides anew. It is no fault.
type notYet struct{ why string }

func (e *notYet) Error() string { return e.why }

func isNotYet(err error) bool {
	var n *notYet
	return errors.As(err, &n)
}

// blocked is what a person must mend before anything else is done.
type blocked struct {
	rule    plan.RuleName
	because string
}

func (e *blocked) Error() string { return e.because }

// patch is a merge patch that applies to this very object and no other of its name: the API
// server refuses one that would change a UID.
type patch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     any       `json:"spec,omitempty"`
}

type patchMeta struct {
	UID             string         `json:"uid"`
	ResourceVersion string         `json:"resourceVersion,omitempty"`
	Labels          map[string]any `json:"labels,omitempty"`
	Annotations     map[string]any `json:"annotations,omitempty"`
	Finalizers      []string       `json:"finalizers,omitempty"`
}

func patchOf(object metav1.Object) patch {
	return patch{Metadata: patchMeta{UID: string(object.GetUID())}}
}

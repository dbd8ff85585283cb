package valkeycluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	valkeyfake "github.com/momentohq/valkey-operator/pkg/generated/clientset/versioned/fake"
)

// fakeAPI is an API server in memory behind both clientsets. It refuses what a real one refuses: a
// stale resourceVersion, another UID, a second object of one name; status is written by its
// subresource only, and finalizers hold what is deleted.
type fakeAPI struct {
	mu      sync.Mutex
	kube    *kubefake.Clientset
	valkey  *valkeyfake.Clientset
	objects map[string]map[string]map[string]any // resource, namespace/name
	version int
	decoded map[string]runtime.Object // by version: decoding is what the tests' time goes into
	// writes and reads are what was asked for, as "verb resource[/subresource] name".
	writes, reads []string
	// fault, if set, is asked before and after each call; an error ends it there.
	fault func(call string, done bool) error
	// byTest: the caller is the test, as kubelet or as a person, and not the operator.
	byTest bool
}

var kinds = map[string]func() runtime.Object{
	"valkeyclusters": func() runtime.Object { return &v1alpha1.ValkeyCluster{} },
	"valkeynodes":    func() runtime.Object { return &v1alpha1.ValkeyNode{} },
	"valkeyconfigs":  func() runtime.Object { return &v1alpha1.ValkeyConfig{} },
	"valkeyimages":   func() runtime.Object { return &v1alpha1.ValkeyImage{} },
	"valkeyroles":    func() runtime.Object { return &v1alpha1.ValkeyRole{} },
	"pods":           func() runtime.Object { return &corev1.Pod{} },
	"services":       func() runtime.Object { return &corev1.Service{} },
	"configmaps":     func() runtime.Object { return &corev1.ConfigMap{} },
	"secrets":        func() runtime.Object { return &corev1.Secret{} },
	"nodes":          func() runtime.Object { return &corev1.Node{} },
}

func newFakeAPI() *fakeAPI {
	f := &fakeAPI{kube: kubefake.NewSimpleClientset(), valkey: valkeyfake.NewSimpleClientset(), objects: map[string]map[string]map[string]any{}, decoded: map[string]runtime.Object{}}
	for name := range kinds {
		f.objects[name] = map[string]map[string]any{}
	}
	f.kube.PrependReactor("*", "*", f.react)
	f.valkey.PrependReactor("*", "*", f.react)
	return f
}

func (f *fakeAPI) react(action clienttesting.Action) (bool, runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	resource := action.GetResource().Resource
	name := ""
	if named, ok := action.(interface{ GetName() string }); ok {
		name = named.GetName()
	}
	if create, ok := action.(clienttesting.CreateAction); ok {
		name = create.GetObject().(metav1.Object).GetName()
	}
	call := strings.TrimSuffix(action.GetVerb()+" "+strings.TrimSuffix(resource+"/"+action.GetSubresource(), "/")+" "+name, " ")
	if f.byTest {
		obj, err := f.serve(action, resource, name)
		return true, obj, err
	}
	if action.GetVerb() == "get" || action.GetVerb() == "list" {
		f.reads = append(f.reads, call)
	} else {
		f.writes = append(f.writes, call)
	}
	if f.fault != nil {
		if err := f.fault(call, false); err != nil {
			return true, nil, err
		}
	}
	obj, err := f.serve(action, resource, name)
	if f.fault != nil && err == nil {
		if err := f.fault(call, true); err != nil {
			return true, nil, err
		}
	}
	return true, obj, err
}

func (f *fakeAPI) serve(action clienttesting.Action, resource, name string) (runtime.Object, error) {
	gr := action.GetResource().GroupResource()
	key := action.GetNamespace() + "/" + name
	have, exists := f.objects[resource][key]
	if !exists && slices.Contains([]string{"get", "update", "delete"}, action.GetVerb()) {
		return nil, apierrors.NewNotFound(gr, name)
	}
	switch action.GetVerb() { // by verb: the actions' interfaces overlap
	case "get":
		return typed(resource, have), nil
	case "list":
		return f.list(resource, action.GetNamespace()), nil
	case "delete":
		return nil, f.remove(gr, key, have, action.(clienttesting.DeleteActionImpl).DeleteOptions)
	case "patch":
		return f.patch(gr, key, have, action.(clienttesting.PatchAction))
	case "create":
		if exists {
			return nil, apierrors.NewAlreadyExists(gr, name)
		}
		return f.add(resource, key, plain(action.(clienttesting.CreateAction).GetObject())), nil
	case "update":
		next := plain(action.(clienttesting.UpdateAction).GetObject())
		if v := metaOf(next)["resourceVersion"]; v != nil && v != metaOf(have)["resourceVersion"] {
			return nil, apierrors.NewConflict(gr, name, errors.New("stale"))
		}
		return f.put(resource, key, have, next, action.GetSubresource()), nil
	}
	return nil, fmt.Errorf("the fake does not know %s", action.GetVerb())
}

func (f *fakeAPI) add(resource, key string, next map[string]any) runtime.Object {
	f.version++
	m := metaOf(next)
	m["uid"], m["resourceVersion"], m["generation"] = "uid-"+strconv.Itoa(f.version), strconv.Itoa(f.version), int64(1)
	if strings.HasPrefix(resource, "valkey") {
		delete(next, "status")
	}
	f.objects[resource][key] = next
	return typed(resource, next)
}

// put writes an update: the status alone, or all but the status.
func (f *fakeAPI) put(resource, key string, have, next map[string]any, subresource string) runtime.Object {
	f.version++
	merged := maps.Clone(have)
	if subresource == "status" {
		merged["status"] = next["status"]
		merged["metadata"] = maps.Clone(metaOf(have))
	} else {
		status := have["status"]
		merged = next
		if strings.HasPrefix(resource, "valkey") {
			merged["status"] = status
		}
	}
	metaOf(merged)["resourceVersion"] = strconv.Itoa(f.version)
	f.objects[resource][key] = merged
	if metaOf(merged)["deletionTimestamp"] != nil && len(list(metaOf(merged)["finalizers"])) == 0 {
		delete(f.objects[resource], key)
	}
	return typed(resource, merged)
}

func (f *fakeAPI) patch(gr schema.GroupResource, key string, have map[string]any, a clienttesting.PatchAction) (runtime.Object, error) {
	var change map[string]any
	if err := json.Unmarshal(a.GetPatch(), &change); err != nil {
		return nil, err
	}
	if have == nil && a.GetPatchType() == types.ApplyPatchType {
		return f.add(gr.Resource, key, change), nil
	}
	if have == nil {
		return nil, apierrors.NewNotFound(gr, a.GetName())
	}
	for _, field := range []string{"uid", "resourceVersion"} {
		if want := metaOf(change)[field]; want != nil && want != metaOf(have)[field] {
			return nil, apierrors.NewConflict(gr, a.GetName(), errors.New("another "+field))
		}
	}
	next := merge(plain(typed(gr.Resource, have)), change).(map[string]any)
	return f.put(gr.Resource, key, have, next, a.GetSubresource()), nil
}

// merge is a JSON merge patch (RFC 7386).
func merge(have, change any) any {
	c, ok := change.(map[string]any)
	if !ok {
		return change
	}
	h, ok := have.(map[string]any)
	if !ok {
		h = map[string]any{}
	}
	for key, value := range c {
		if value == nil {
			delete(h, key)
		} else {
			h[key] = merge(h[key], value)
		}
	}
	return h
}

func (f *fakeAPI) remove(gr schema.GroupResource, key string, have map[string]any, o metav1.DeleteOptions) error {
	if p := o.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != metaOf(have)["uid"] || p.ResourceVersion != nil && *p.ResourceVersion != metaOf(have)["resourceVersion"] {
			return apierrors.NewConflict(gr, key, errors.New("precondition"))
		}
	}
	if len(list(metaOf(have)["finalizers"])) == 0 {
		f.version++
		delete(f.objects[gr.Resource], key)
		return nil
	}
	if metaOf(have)["deletionTimestamp"] == nil {
		f.version++
		metaOf(have)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
		metaOf(have)["resourceVersion"] = strconv.Itoa(f.version)
	}
	return nil
}

func (f *fakeAPI) list(resource, namespace string) runtime.Object {
	out := &v1alpha1.ValkeyNodeList{}
	for _, o := range f.all(resource) {
		if n, ok := o.(*v1alpha1.ValkeyNode); ok && n.Namespace == namespace {
			out.Items = append(out.Items, *n)
		}
	}
	return out
}

// all lists the objects of a kind by name.
func (f *fakeAPI) all(resource string) []runtime.Object {
	var out []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(f.objects[resource])) {
		o := f.objects[resource][key]
		version := fmt.Sprint(resource, key, metaOf(o)["uid"], metaOf(o)["resourceVersion"])
		if f.decoded[version] == nil {
			f.decoded[version] = typed(resource, o)
		}
		out = append(out, f.decoded[version].DeepCopyObject())
	}
	return out
}

func plain(o runtime.Object) map[string]any {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(body, &out); err != nil {
		panic(err)
	}
	return out
}

func typed(resource string, o map[string]any) runtime.Object {
	body, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	out := kinds[resource]()
	if err := json.Unmarshal(body, out); err != nil {
		panic(err)
	}
	return out
}

func metaOf(o map[string]any) map[string]any {
	m, _ := o["metadata"].(map[string]any)
	if m == nil {
		m = map[string]any{}
		o["metadata"] = m
	}
	return m
}

func list(v any) []any { l, _ := v.([]any); return l }

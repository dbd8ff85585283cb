package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// crdRetry is how often the CRDs are looked for; a line is logged each crdReminder.
const (
	crdRetry    = 2 * time.Second
	crdReminder = time.Minute
)

// waitForCRDs waits until the API server knows every field that this operator writes. An older
// CRD drops fields without a word, `status.podUID` among them, and with it the promise that a
// node never gets a second pod.
func waitForCRDs(ctx context.Context, api rest.Interface) error {
	var last time.Time
	for {
		err := checkCRDs(ctx, api)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(last) > crdReminder {
			klog.FromContext(ctx).Error(err, "waiting for the CRDs of this release")
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(crdRetry):
		}
	}
}

// schema is what is read of an OpenAPI schema.
type schema struct {
	Kinds []struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
	Properties map[string]*schema `json:"properties"`
	Items      *schema            `json:"items"`
}

var kinds = map[string]reflect.Type{
	"ValkeyImage":   reflect.TypeFor[v1alpha1.ValkeyImage](),
	"ValkeyConfig":  reflect.TypeFor[v1alpha1.ValkeyConfig](),
	"ValkeyRole":    reflect.TypeFor[v1alpha1.ValkeyRole](),
	"ValkeyCluster": reflect.TypeFor[v1alpha1.ValkeyCluster](),
	"ValkeyNode":    reflect.TypeFor[v1alpha1.ValkeyNode](),
}

func checkCRDs(ctx context.Context, api rest.Interface) error {
	group := v1alpha1.SchemeGroupVersion
	body, err := api.Get().AbsPath("/openapi/v3/apis/"+group.String()).SetHeader("Accept", "application/json").
		Timeout(10 * time.Second).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the CRDs of %s are not installed: apply crds.json of this release", group)
	}
	if err != nil {
		return fmt.Errorf("ask the API server for the schema of %s: %w", group, err)
	}
	var document struct {
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return fmt.Errorf("read the schema of %s: %w", group, err)
	}
	found := map[string]*schema{}
	for _, s := range document.Components.Schemas {
		for _, k := range s.Kinds {
			found[k.Kind] = s
		}
	}
	var missing []string
	for kind, is := range kinds {
		if found[kind] == nil {
			missing = append(missing, kind)
			continue
		}
		for _, part := range []string{"spec", "status"} {
			field, ok := fieldNamed(is, part)
			if ok {
				missing = append(missing, lacks(found[kind].Properties[part], field, kind+"."+part)...)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("the installed CRDs are older than this operator, apply crds.json of this release: they lack " + strings.Join(missing, ", "))
}

// lacks names the fields of a Go type that a schema does not have.
func lacks(have *schema, want reflect.Type, path string) []string {
	if have == nil {
		return []string{path}
	}
	switch want.Kind() {
	case reflect.Pointer:
		return lacks(have, want.Elem(), path)
	case reflect.Slice:
		if !isOurs(want.Elem()) {
			return nil
		}
		return lacks(have.Items, want.Elem(), path+"[]")
	case reflect.Struct:
		if !isOurs(want) {
			return nil
		}
		var out []string
		for i := range want.NumField() {
			name, _, _ := strings.Cut(want.Field(i).Tag.Get("json"), ",")
			if name != "" {
				out = append(out, lacks(have.Properties[name], want.Field(i).Type, path+"."+name)...)
			}
		}
		return out
	}
	return nil
}

// isOurs says whether a type's fields are the CRD's own: those of metav1 come and go with
// Kubernetes.
func isOurs(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[v1alpha1.ValkeyNode]().PkgPath()
}

func fieldNamed(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type, true
		}
	}
	return nil, false
}

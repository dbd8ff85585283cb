package v1alpha1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestEveryKindAndItsListAreInTheScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{KindValkeyImage, KindValkeyConfig, KindValkeyRole, KindValkeyCluster, KindValkeyNode} {
		for _, name := range []string{kind, kind + "List"} {
			object, err := scheme.New(SchemeGroupVersion.WithKind(name))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if kinds, _, err := scheme.ObjectKinds(object); err != nil || len(kinds) != 1 || kinds[0].Kind != name {
				t.Errorf("%s is known as %v (%v)", name, kinds, err)
			}
		}
	}
}

func TestEveryNameThatDerivesFromTheLongestClusterNameIsValid(t *testing.T) {
	cluster := strings.Repeat("c", MaxClusterNameLength)
	node := cluster + "-0a1b2"
	for what, problems := range map[string][]string{
		"the Service":                  validation.IsDNS1035Label(cluster),
		"the instance label":           validation.IsValidLabelValue(cluster),
		"a node's host name":           validation.IsDNS1123Label(node),
		"a node's name as label":       validation.IsValidLabelValue(node),
		"the Secret of passwords":      validation.IsDNS1123Subdomain(cluster + SuffixAuthSecret),
		"their spare":                  validation.IsDNS1123Subdomain(cluster + SuffixAuthSpare),
		"the ConfigMap of ACLs":        validation.IsDNS1123Subdomain(cluster + SuffixACLConfigMap),
		"the Secret of TLS":            validation.IsDNS1123Subdomain(cluster + SuffixTLSSecret),
		"the ConfigMap of a node":      validation.IsDNS1123Subdomain(node + SuffixNodeConfigMap),
		"the finalizer of a cluster":   validation.IsQualifiedName(FinalizerCluster),
		"the finalizer of a node":      validation.IsQualifiedName(FinalizerNode),
		"the label of the join":        validation.IsQualifiedName(LabelJoinType),
		"the annotation of a restart":  validation.IsQualifiedName(AnnotationRestart),
		"the annotation of a rotation": validation.IsQualifiedName(AnnotationRotateCredentials),
	} {
		for _, p := range problems {
			t.Errorf("%s: %s", what, p)
		}
	}
}

func TestADeepCopySharesNothing(t *testing.T) {
	c := &ValkeyCluster{Spec: ValkeyClusterSpec{
		Acl:       []AclBinding{{Username: "a", PasswordHashes: []string{"h"}, Permissions: []AclPermission{{Keys: []KeyPattern{{Pattern: "p"}}}}}},
		Placement: &Placement{Zones: []string{"z"}, NodeSelector: map[string]string{"k": "v"}},
		TLS:       &ValkeyTLS{SecretRef: "s"},
	}}
	d := c.DeepCopy()
	d.Spec.Acl[0].PasswordHashes[0], d.Spec.Acl[0].Permissions[0].Keys[0].Pattern = "x", "x"
	d.Spec.Placement.Zones[0], d.Spec.Placement.NodeSelector["k"], d.Spec.TLS.SecretRef = "x", "x", "x"
	s := c.Spec
	if s.Acl[0].PasswordHashes[0] != "h" || s.Acl[0].Permissions[0].Keys[0].Pattern != "p" || s.Placement.Zones[0] != "z" ||
		s.Placement.NodeSelector["k"] != "v" || s.TLS.SecretRef != "s" {
		t.Errorf("the copy shares memory: %+v", s)
	}
}

package resolve

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// shelf is one kind of the menu.
type shelf[T any] map[string]*T

func (s shelf[T]) Get(name string) (*T, error) {
	if one, ok := s[name]; ok {
		return one, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, name)
}

type broken[T any] struct{}

func (broken[T]) Get(string) (*T, error) { return nil, errors.New("the cache is on fire") }

func menuOf(configs map[string]v1alpha1.ValkeyConfigSpec, images map[string]v1alpha1.ValkeyImageSpec) Menu {
	c, i := shelf[v1alpha1.ValkeyConfig]{}, shelf[v1alpha1.ValkeyImage]{}
	for name, spec := range configs {
		c[name] = &v1alpha1.ValkeyConfig{Spec: spec}
	}
	for name, spec := range images {
		one := &v1alpha1.ValkeyImage{Spec: spec}
		one.Name = name
		i[name] = one
	}
	return Menu{Configs: c, Images: i, Roles: shelf[v1alpha1.ValkeyRole]{}}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

var valkey9 = map[string]v1alpha1.ValkeyImageSpec{"v9": {Repository: "example/valkey", Tag: "9.1.2", Version: "9.1.2"}}

func TestTheChildWinsAndWhatItLeavesOpenComesFromItsBase(t *testing.T) {
	user := func(name string) []v1alpha1.AclBinding { return []v1alpha1.AclBinding{{Username: name}} }
	menu := menuOf(map[string]v1alpha1.ValkeyConfigSpec{
		"child": {BaseRef: "middle", Resources: &v1alpha1.ValkeyResources{CPU: quantity("2")},
			Valkey: map[string]string{"a": "child", "b": ""}},
		"middle": {BaseRef: "root", ImageRef: "v9", Acl: user("middle"), Resources: &v1alpha1.ValkeyResources{CPU: quantity("3")},
			Valkey: map[string]string{"a": "middle", "b": "middle", "c": "middle"}},
		"root": {ImageRef: "other", Acl: user("root"), Resources: &v1alpha1.ValkeyResources{CPU: quantity("4"), Memory: quantity("4Gi")},
			Valkey: map[string]string{"c": "root", "d": "root"}},
	}, valkey9)
	got, err := Cluster(menu, &v1alpha1.ValkeyClusterSpec{ConfigRef: "child"})
	if err != nil {
		t.Fatal(err)
	}
	want := Resolved{
		Image: "example/valkey:9.1.2", ImageRef: "v9", Version: Version{9, 1, 2},
		CPU: quantity("2"), Memory: quantity("4Gi"),
		Settings: map[string]string{"a": "child", "b": "", "c": "middle", "d": "root"},
		Acl:      user("middle"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnEmptyAclListIsSetAndSoNotInherited(t *testing.T) {
	menu := menuOf(map[string]v1alpha1.ValkeyConfigSpec{
		"child": {BaseRef: "root", ImageRef: "v9", Acl: []v1alpha1.AclBinding{}},
		"root":  {Acl: []v1alpha1.AclBinding{{Username: "app"}}},
	}, valkey9)
	got, err := Cluster(menu, &v1alpha1.ValkeyClusterSpec{ConfigRef: "child"})
	if err != nil || len(got.Acl) != 0 {
		t.Errorf("%v, %v", got.Acl, err)
	}
}

// line is a chain of n configs, the last of which names the image.
func line(n int) map[string]v1alpha1.ValkeyConfigSpec {
	out := map[string]v1alpha1.ValkeyConfigSpec{}
	for i := 1; i < n; i++ {
		out[fmt.Sprintf("c%d", i)] = v1alpha1.ValkeyConfigSpec{BaseRef: fmt.Sprintf("c%d", i+1)}
	}
	out[fmt.Sprintf("c%d", n)] = v1alpha1.ValkeyConfigSpec{ImageRef: "v9"}
	return out
}

func TestWhatCannotBeResolvedIsToldInTheWordsOfTheContract(t *testing.T) {
	missingAtEleven := line(11)
	delete(missingAtEleven, "c11")
	for _, test := range []struct {
		name    string
		configs map[string]v1alpha1.ValkeyConfigSpec
		images  map[string]v1alpha1.ValkeyImageSpec
		want    error
	}{
		{"ten configs are not too many", line(10), valkey9, nil},
		{"eleven are", line(11), valkey9,
			&Error{ReasonInheritanceTooDeep, "config inheritance depth exceeds 10 (cycle?)"}},
		{"eleven are, even where the eleventh is missing", missingAtEleven, valkey9,
			&Error{ReasonInheritanceTooDeep, "config inheritance depth exceeds 10 (cycle?)"}},
		{"a config on itself", map[string]v1alpha1.ValkeyConfigSpec{"c1": {BaseRef: "c1", ImageRef: "v9"}}, valkey9,
			&Error{ReasonInheritanceTooDeep, "config inheritance depth exceeds 10 (cycle?)"}},
		{"a cycle of two", map[string]v1alpha1.ValkeyConfigSpec{"c1": {BaseRef: "c2"}, "c2": {BaseRef: "c1"}}, valkey9,
			&Error{ReasonInheritanceTooDeep, "config inheritance depth exceeds 10 (cycle?)"}},
		{"no config", nil, valkey9, &Error{ReasonConfigNotFound, `ValkeyConfig "c1" not found`}},
		{"no base", map[string]v1alpha1.ValkeyConfigSpec{"c1": {BaseRef: "c2", ImageRef: "v9"}}, valkey9,
			&Error{ReasonConfigNotFound, `ValkeyConfig "c2" not found`}},
		{"nobody names an image", map[string]v1alpha1.ValkeyConfigSpec{"c1": {BaseRef: "c2"}, "c2": {}}, valkey9,
			&Error{ReasonNoImage, `no image_ref in config chain ending at "c2"`}},
		{"no image", line(1), nil, &Error{ReasonImageNotFound, `ValkeyImage "v9" not found`}},
		{"an engine below the floor", line(1), map[string]v1alpha1.ValkeyImageSpec{"v9": {Version: "8.1.1"}},
			&Error{ReasonVersionTooOld, `ValkeyImage "v9": version 8.1.1 is below 9.0.0`}},
		{"the floor itself", line(1), map[string]v1alpha1.ValkeyImageSpec{"v9": {Version: "9.0.0"}}, nil},
		{"a version as text is not compared as text", line(1), map[string]v1alpha1.ValkeyImageSpec{"v9": {Version: "10.0.0"}}, nil},
		{"no version", line(1), map[string]v1alpha1.ValkeyImageSpec{"v9": {Version: "v9"}},
			&Error{ReasonVersionMalformed, `ValkeyImage "v9": version "v9" is not MAJOR.MINOR.PATCH`}},
	} {
		_, err := Cluster(menuOf(test.configs, test.images), &v1alpha1.ValkeyClusterSpec{ConfigRef: "c1"})
		if diff := cmp.Diff(fmt.Sprintf("%#v", test.want), fmt.Sprintf("%#v", err)); fmt.Sprint(test.want) != fmt.Sprint(err) {
			t.Errorf("%s: %s", test.name, diff)
		}
		var mine *Error
		if test.want != nil && (!errors.As(err, &mine) || mine.Reason != test.want.(*Error).Reason) {
			t.Errorf("%s: reason is not %s: %#v", test.name, test.want.(*Error).Reason, err)
		}
	}
}

func TestAFaultOfTheMenuIsNotTheUsers(t *testing.T) {
	good := menuOf(line(1), valkey9)
	noConfigs, noImages, noRoles := good, good, good
	noConfigs.Configs = broken[v1alpha1.ValkeyConfig]{}
	noImages.Images = broken[v1alpha1.ValkeyImage]{}
	noRoles.Roles = broken[v1alpha1.ValkeyRole]{}
	_, first := Cluster(noConfigs, &v1alpha1.ValkeyClusterSpec{ConfigRef: "c1"})
	_, second := Cluster(noImages, &v1alpha1.ValkeyClusterSpec{ConfigRef: "c1"})
	_, third := ACL(noRoles, nil, []v1alpha1.AclBinding{{Username: "u", Permissions: []v1alpha1.AclPermission{{RoleRef: "r"}}}})
	for i, err := range []error{first, second, third} {
		var mine *Error
		if err == nil || errors.As(err, &mine) {
			t.Errorf("%d: %#v", i, err)
		}
	}
}

func TestATagThatIsADigestIsWrittenWithAnAt(t *testing.T) {
	for tag, want := range map[string]string{
		"9.1.2":        "r/valkey:9.1.2",
		"sha256:abcde": "r/valkey@sha256:abcde",
		"sha256":       "r/valkey:sha256",
		"sha256-abc":   "r/valkey:sha256-abc",
	} {
		if got := imageName(v1alpha1.ValkeyImageSpec{Repository: "r/valkey", Tag: tag}); got != want {
			t.Errorf("%q: %q, want %q", tag, got, want)
		}
	}
}

func TestEqualAmountsAreNoDifferenceToANode(t *testing.T) {
	for _, same := range [][]string{
		{"1", "1000m", "1.0", "1e0", "0.001k"},
		{"1Gi", "1024Mi", "1073741824", "1.0Gi"},
		{"1500m", "1.5"},
		{"100M", "100000k", "1e8", "100000000"},
	} {
		first := Resolved{CPU: quantity(same[0]), Memory: quantity(same[0])}.Inputs(nil)
		for _, other := range same[1:] {
			in := Resolved{CPU: quantity(other), Memory: quantity(other)}.Inputs(nil)
			if config.Revision(in) != config.Revision(first) {
				t.Errorf("%s is not %s: %q, %q", other, same[0], in.CPU, first.CPU)
			}
		}
	}
	if config.Revision(Resolved{CPU: quantity("1")}.Inputs(nil)) == config.Revision(Resolved{CPU: quantity("1001m")}.Inputs(nil)) {
		t.Error("1 and 1001m are the same")
	}
}

func TestWhatAnEditDoesToTheRevision(t *testing.T) {
	base := Resolved{Image: "i:1", Settings: map[string]string{"a": "1"}}
	at := func(r Resolved, p *v1alpha1.Placement) string { return config.Revision(r.Inputs(p)) }
	was := at(base, nil)
	for name, same := range map[string]string{
		"empty placement":     at(base, &v1alpha1.Placement{}),
		"zone spread":         at(base, &v1alpha1.Placement{ZoneSpread: v1alpha1.ZoneSpreadRequired}),
		"declared version":    at(Resolved{Image: "i:1", Version: Version{9, 2, 0}, Settings: base.Settings}, nil),
		"image by other name": at(Resolved{Image: "i:1", ImageRef: "x", Settings: base.Settings}, nil),
		"users":               at(Resolved{Image: "i:1", Settings: base.Settings, Acl: []v1alpha1.AclBinding{{}}}, nil),
	} {
		if same != was {
			t.Errorf("%s: rolls", name)
		}
	}
	for name, other := range map[string]string{
		"zones":    at(base, &v1alpha1.Placement{Zones: []string{"a"}}),
		"selector": at(base, &v1alpha1.Placement{NodeSelector: map[string]string{"a": "b"}}),
		"image":    at(Resolved{Image: "i:2", Settings: base.Settings}, nil),
		"setting":  at(Resolved{Image: "i:1", Settings: map[string]string{"a": "2"}}, nil),
	} {
		if other == was {
			t.Errorf("%s: does not roll", name)
		}
	}
}

func TestKnownBadEnginesWarn(t *testing.T) {
	for text, warns := range map[string]bool{
		"9.0.0": true, "9.0.1": false, "9.0.5": true, "9.0.6": false, "9.1.0": true, "9.1.1": true, "9.1.2": false, "10.0.0": false,
	} {
		version, err := ParseVersion(text)
		if err != nil || (version.Warning() != "") != warns {
			t.Errorf("%s: %q, %v", text, version.Warning(), err)
		}
	}
	for _, text := range []string{"", "9", "9.1", "9.1.2.3", "9.1.x", "9.01.2", "+9.1.2", "-9.1.2", "9.1.2-rc1", "99999999999999999999.0.0"} {
		if version, err := ParseVersion(text); err == nil {
			t.Errorf("%q is read as %s", text, version)
		}
	}
}

func TestRolesOfAllUsersAreLookedUp(t *testing.T) {
	menu := menuOf(nil, nil)
	menu.Roles = shelf[v1alpha1.ValkeyRole]{"reader": {Spec: v1alpha1.ValkeyRoleSpec{
		Categories: []v1alpha1.RoleCategory{{Name: "read", Access: "allow"}, {Name: "slow", Access: "deny"}},
		Commands:   []v1alpha1.RoleCommand{{Name: "config", Subcommand: "get", Access: "allow"}, {Name: "keys", Access: "deny"}},
	}}}
	app := v1alpha1.AclBinding{Username: "app", PasswordHashes: []string{"aa", "bb"},
		Permissions: []v1alpha1.AclPermission{{RoleRef: "reader",
			Keys:     []v1alpha1.KeyPattern{{Pattern: "a:*", Access: "read"}, {Pattern: "b"}},
			Channels: []string{"news"}}}}
	other := app
	other.Username = "other"
	binding := func(name string) acl.Binding {
		return acl.Binding{Username: name, PasswordHashes: []string{"aa", "bb"}, Permissions: []acl.Permission{{
			Role: "reader", Keys: []acl.Key{{Pattern: "a:*", Access: "read"}, {Pattern: "b"}}, Channels: []string{"news"}}}}
	}
	want := acl.Input{Config: []acl.Binding{binding("app")}, Cluster: []acl.Binding{binding("other")},
		Roles: map[string]acl.Role{"reader": {
			Categories: []acl.Category{{Name: "read"}, {Name: "slow", Deny: true}},
			Commands:   []acl.Command{{Name: "config", Subcommand: "get"}, {Name: "keys", Deny: true}},
		}}}
	got, err := ACL(menu, []v1alpha1.AclBinding{app}, []v1alpha1.AclBinding{other})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = ACL(menu, []v1alpha1.AclBinding{app}, []v1alpha1.AclBinding{app})
	if want := `duplicate username "app" in merged ACL bindings`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	other.Permissions = []v1alpha1.AclPermission{{RoleRef: "writer"}}
	_, err = ACL(menu, nil, []v1alpha1.AclBinding{app, other})
	if want := `ValkeyRole "writer" not found (referenced by user "other")`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

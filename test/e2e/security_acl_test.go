package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	valkeyv1alpha1 "github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

const aMinuteAndABit = 90 * time.Second

func keys(access valkeyv1alpha1.KeyAccess, patterns ...string) []valkeyv1alpha1.KeyPattern {
	out := []valkeyv1alpha1.KeyPattern{}
	for _, p := range patterns {
		out = append(out, valkeyv1alpha1.KeyPattern{Pattern: p, Access: access})
	}
	return out
}

// try is one command of a user and whether it may.
type try struct {
	as      lab.User
	command string
	may     bool
}

// tryAll sends every command to every server.
func tryAll(t *testing.T, c *lab.Cluster, all []try) {
	t.Helper()
	for _, addr := range c.Addresses() {
		for _, one := range all {
			err := c.Do(addr, one.as, strings.Fields(one.command)...)
			refused := lab.Refusal(err)
			if one.may && (refused == "NOPERM" || refused == "NOAUTH" || refused == "WRONGPASS") || !one.may && refused != "NOPERM" && refused != "NOAUTH" && refused != "WRONGPASS" {
				t.Errorf("%s as %q at %s: %v; may it: %v", one.command, one.as.Name, addr, err, one.may)
			}
		}
	}
}

// Each form of a binding, with what it must allow and what it must deny, on every node; the door that was
// open without bindings is shut by the first one.
func TestUsersMayDoWhatTheirRolesSayOnEveryNode(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{Plain: true})
	allow, deny := valkeyv1alpha1.RoleAccessAllow, valkeyv1alpha1.RoleAccessDeny
	role := func(name string) string { return s.Name + "-" + name }
	s.CreateRole(role("reader"), valkeyv1alpha1.ValkeyRoleSpec{Categories: []valkeyv1alpha1.RoleCategory{{Name: "read", Access: allow}}})
	s.CreateRole(role("writer"), valkeyv1alpha1.ValkeyRoleSpec{
		Categories: []valkeyv1alpha1.RoleCategory{{Name: "write", Access: allow}, {Name: "pubsub", Access: allow}, {Name: "dangerous", Access: deny}},
		Commands:   []valkeyv1alpha1.RoleCommand{{Name: "config", Subcommand: "get", Access: allow}, {Name: "incr", Access: deny}},
	})
	c := s.Create("cache", 2, 1)
	c.Settle(aMinuteAndABit, 2, 1)
	nobody := lab.User{}
	tryAll(t, c, []try{{nobody, "CONFIG GET port", true}, {nobody, "SET k v", true}})

	ann, bob := lab.User{Name: "ann", Password: "one"}, lab.User{Name: "bob-2_B", Password: "two"}
	second := lab.User{Name: bob.Name, Password: "another"}
	bind := bob.Bind(
		valkeyv1alpha1.AclPermission{RoleRef: role("writer"), Keys: keys("", "app:*"), Channels: []string{"news:*"}},
		valkeyv1alpha1.AclPermission{RoleRef: role("reader"), Keys: keys(valkeyv1alpha1.KeyAccessRead, "shared:(x)")},
	)
	bind.PasswordHashes = append(bind.PasswordHashes, second.Hash())
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionTrue)
	c.User = lab.User{Name: "_momento_operator", Password: string(s.Secret(authSecret).Data["operator-password"])}
	loads := c.Calls()["acl|load"]
	s.PatchConfig(s.Name, fmt.Sprintf(`{"spec":{"acl":[{"username":"ann","passwordHashes":[%q],"permissions":[{"roleRef":%q,"keys":[{"pattern":"*"}]}]}]}}`, ann.Hash(), role("reader")))
	c.PatchSpec(func(spec *valkeyv1alpha1.ValkeyClusterSpec) { spec.Acl = []valkeyv1alpha1.AclBinding{bind} })
	// Kubelets take seconds: what the servers load first is the old file.
	c.WaitCondition(10*time.Second, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionFalse, "these have not loaded the present users.acl yet: ")
	lab.Eventually(t, aMinuteAndABit, "the new users on every node", func() error {
		for _, addr := range c.Addresses() {
			for _, user := range []lab.User{ann, bob, second} {
				if err := c.Do(addr, user, "GET", "app:1"); lab.Refusal(err) == "WRONGPASS" {
					return fmt.Errorf("%s at %s: %w", user.Name, addr, err)
				}
			}
		}
		return nil
	})
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionTrue)
	if n := c.Calls()["acl|load"] - loads; n < 2*4 {
		t.Errorf("%d × ACL LOAD on 4 nodes: the first one was of the old file, and was not repeated", n)
	}
	wrong := lab.User{Name: "ann", Password: "two"}
	tryAll(t, c, []try{
		{nobody, "PING", false}, {nobody, "GET k", false}, {nobody, "SET k v", false}, {wrong, "PING", false}, {lab.User{Name: "eve", Password: "one"}, "PING", false},
		{ann, "GET k", true}, {ann, "MGET k", true}, {ann, "SET k v", false}, {ann, "CONFIG GET port", false}, {ann, "PUBLISH news:1 x", false}, {ann, "ACL LIST", false}, {ann, "FLUSHALL", false},
		{bob, "SET app:1 v", true}, {second, "SET app:1 v", true}, {bob, "SET other v", false}, {bob, "INCR app:1", false}, {bob, "FLUSHALL", false},
		{bob, "CONFIG GET port", true}, {bob, "CONFIG SET maxmemory 1gb", false}, {bob, "PUBLISH news:1 x", true}, {bob, "PUBLISH old:1 x", false},
		{bob, "GET shared:(x)", true}, {bob, "SET shared:(x) v", false}, {bob, "GET shared:x", false},
		{lab.User{Name: "_momento_operator", Password: "guess"}, "PING", false}, {lab.User{Name: "_momento_rev", Password: ""}, "PING", false},
	})
	c.AssertShape(2, 1)
}

// What is changed by hand is wiped; a role that is missing holds back the users and nothing else.
func TestManualUsersAreWipedAndAMissingRoleHoldsBackUsersOnly(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{Plain: true})
	c := s.Create("cache", 1, 1)
	c.Settle(aMinuteAndABit, 1, 1)
	for _, addr := range c.Addresses() {
		if err := c.Do(addr, lab.User{}, "ACL", "SETUSER", "intruder", "on", "nopass", "+@all", "~*"); err != nil {
			t.Fatal(err)
		}
	}
	intruder := lab.User{Name: "intruder", Password: "any"}
	lab.Eventually(t, aMinuteAndABit, "the user made by hand to be gone", func() error {
		for _, addr := range c.Addresses() {
			if err := c.Do(addr, intruder, "PING"); lab.Refusal(err) != "WRONGPASS" {
				return fmt.Errorf("at %s: %v", addr, err)
			}
		}
		return nil
	})
	ghost := s.Name + "-ghost"
	ann := lab.User{Name: "ann", Password: "one"}
	c.PatchSpec(func(spec *valkeyv1alpha1.ValkeyClusterSpec) {
		spec.Acl = []valkeyv1alpha1.AclBinding{ann.Bind(valkeyv1alpha1.AclPermission{RoleRef: ghost, Keys: keys("", "*")})}
	})
	message := fmt.Sprintf("ValkeyRole %q not found (referenced by user %q)", ghost, "ann")
	c.WaitCondition(30*time.Second, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionFalse, message)
	c.WaitEvent(10*time.Second, message)
	tryAll(t, c, []try{{lab.User{}, "SET k v", true}, {ann, "PING", false}})
	c.Scale(1, 0) // everything else goes on
	c.AwaitShape(aMinuteAndABit, 1, 0)
	s.CreateRole(ghost, valkeyv1alpha1.ValkeyRoleSpec{Categories: []valkeyv1alpha1.RoleCategory{{Name: "all", Access: valkeyv1alpha1.RoleAccessAllow}}})
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionTrue)
	tryAll(t, c, []try{{lab.User{}, "SET k v", false}, {ann, "SET k v", true}})
	// The API server cannot see that a config binds a user whom a cluster binds too.
	message = `duplicate username "ann" in merged ACL bindings`
	s.PatchConfig(s.Name, fmt.Sprintf(`{"spec":{"acl":[{"username":"ann","passwordHashes":[%q],"permissions":[{"roleRef":%q,"keys":[]}]}]}}`, ann.Hash(), ghost))
	c.WaitCondition(30*time.Second, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionFalse, message)
	c.WaitEvent(10*time.Second, message)
	tryAll(t, c, []try{{ann, "SET k v", true}})
}

// 64 users with 16 permissions of 16 patterns are loaded; what would not fit into a ConfigMap is refused by
// condition and the last good file stays.
func TestAsManyUsersAsTheSchemaTakesAreLoaded(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{Plain: true, CPU: "250m", Memory: "128Mi"})
	role := s.Name + "-all"
	s.CreateRole(role, valkeyv1alpha1.ValkeyRoleSpec{Categories: []valkeyv1alpha1.RoleCategory{{Name: "all", Access: valkeyv1alpha1.RoleAccessAllow}}})
	bindings := func(user string, width int) []valkeyv1alpha1.AclBinding {
		var all []valkeyv1alpha1.AclBinding
		for i := range 64 {
			var permissions []valkeyv1alpha1.AclPermission
			for j := range 16 {
				p := valkeyv1alpha1.AclPermission{RoleRef: role}
				for k := range 16 {
					p.Keys = append(p.Keys, valkeyv1alpha1.KeyPattern{Pattern: fmt.Sprintf("%0*d", width, (i*16+j)*16+k)})
				}
				permissions = append(permissions, p)
			}
			all = append(all, lab.User{Name: fmt.Sprint(user, i), Password: "p"}.Bind(permissions...))
		}
		return all
	}
	c := s.Create("cache", 1, 0, lab.WithACL(bindings("u", 8)...))
	c.Settle(aMinuteAndABit, 1, 0)
	last := lab.User{Name: "u63", Password: "p"}
	tryAll(t, c, []try{{last, "GET 00016383", true}, {last, "GET 00000000", false}, {lab.User{}, "PING", false}})
	// One object of the API server cannot have so many: the config's users and the cluster's together do.
	c.PatchSpec(func(spec *valkeyv1alpha1.ValkeyClusterSpec) { spec.Acl = bindings("u", 30) })
	config := s.Spec()
	config.Acl = bindings("v", 30)
	patch, err := json.Marshal(map[string]any{"spec": config})
	if err != nil {
		t.Fatal(err)
	}
	s.PatchConfig(s.Name, string(patch))
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionFalse, "users.acl would have", "the limit is 921600")
	if err := c.Do(c.Addresses()[0], last, "PING"); err != nil {
		t.Errorf("the last good users are gone: %v", err)
	}
}

// Both system passwords are replaced while a client writes and without a pod being replaced; a crash of the
// operator in the middle changes nothing. Afterwards replicas still find their primaries.
func TestSystemPasswordsAreRotatedUnderLoad(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.QuickLease, CPU: "250m"})
	c := s.Create("cache", 2, 1)
	c.Settle(aMinuteAndABit, 2, 1)
	auth := func() map[string][]byte {
		secret, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), "cache-operator-auth", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return secret.Data
	}
	before, pods := auth(), c.UIDs()
	w, begun := c.Write(20*time.Millisecond, 64), time.Now()
	w.Back(20*time.Second, begun)
	begun = time.Now()
	c.Patch(`{"metadata":{"annotations":{"valkey.gomomento.com/rotate-credentials":"today"}}}`)
	steps := map[string]bool{}
	lab.Eventually(t, 4*time.Minute, "new passwords, and the old ones retired", func() error {
		now := auth()
		if step := fmt.Sprint(slices.Sorted(maps.Keys(now))); !steps[step] { // crash as soon as something happens
			steps[step] = true
			s.Operator.Kill()
			s.Operator.Start()
		}
		if len(now) != 3 || string(now["operator-password"]) == string(before["operator-password"]) {
			return fmt.Errorf("the Secret has %v", slices.Sorted(maps.Keys(now)))
		}
		return nil
	})
	c.WaitEvent(10*time.Second, "CredentialsRotated")
	old := lab.User{Name: "_momento_operator", Password: string(before["operator-password"])}
	lab.Eventually(t, aMinuteAndABit, "the old password to be refused", func() error {
		for _, addr := range c.Addresses() {
			if err := c.Do(addr, old, "PING"); lab.Refusal(err) != "WRONGPASS" {
				return fmt.Errorf("%s: %v", addr, err)
			}
		}
		return nil
	})
	if gap := w.LongestGap(begun, slot.All()); gap.Length > 3*time.Second {
		t.Errorf("no write to slot %d for %v: %v", gap.Slot, gap.Length, gap.LastFailed)
	}
	if !maps.Equal(pods, c.UIDs()) {
		t.Error("pods were replaced")
	}
	// Every replica has to log in anew, and a new one with the new password.
	c.Watch().Fault()
	primary := c.AssertShape(2, 1).Primaries()[0]
	c.DeletePods(nil, lab.Pods(primary)...)
	c.Settle(aMinuteAndABit, 2, 1)
	w.FinishComplete()
	s.AssertNoSecrets(before, auth())
}

const authSecret, authSpare = "cache-operator-auth", "cache-operator-auth-spare"

func deleteSecrets(s *lab.Site, names ...string) {
	s.T.Helper()
	for _, name := range names {
		if err := s.Bed.Kube.CoreV1().Secrets(s.Name).Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			s.T.Fatal(err)
		}
	}
}

// waitBothSecrets waits until the two Secrets of passwords are there and the same, and gives their data.
func waitBothSecrets(s *lab.Site) map[string][]byte {
	s.T.Helper()
	var data map[string][]byte
	lab.Eventually(s.T, 60*time.Second, "both Secrets of passwords to be there", func() error {
		auth, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), authSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spare, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), authSpare, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !isSameData(auth.Data, spare.Data) {
			return fmt.Errorf("they differ")
		}
		data = auth.Data
		return nil
	})
	return data
}

func isSameData(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// A Secret of passwords that is deleted over a running cluster comes back with those in force, whether the operator runs or
// not. Only without Secret, spare and memory it holds, and says what that means.
func TestADeletedAuthSecretComesBackWithThePasswordsInForce(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.NoLease})
	c := s.Create("cache", 1, 1)
	c.Settle(aMinuteAndABit, 1, 1)
	before, pods := waitBothSecrets(s), c.UIDs()
	deleteSecrets(s, authSecret)
	waitBothSecrets(s)
	for _, lost := range []string{authSecret, authSpare} {
		s.Operator.Kill()
		deleteSecrets(s, lost)
		s.Operator.Start()
		if !isSameData(before, waitBothSecrets(s)) {
			t.Fatal("new passwords were made over a running cluster")
		}
	}

	c.Watch().Fault() // nobody can log in as the operator, and the Watcher does
	s.Operator.Kill()
	deleteSecrets(s, authSecret, authSpare)
	s.Operator.Start()
	told := []string{fmt.Sprintf("Secret %q is gone", authSecret), fmt.Sprintf("%q too", authSpare), "give up all keys", valkeyv1alpha1.AnnotationRestart}
	c.WaitCondition(30*time.Second, valkeyv1alpha1.ConditionDegraded, metav1.ConditionTrue, told...)
	c.WaitEvent(10*time.Second, append(told, "AuthSecretMissing")...)
	time.Sleep(6 * time.Second) // more than one pass
	if !maps.Equal(pods, c.UIDs()) {
		t.Error("pods were replaced and nobody asked for it")
	}
	almost := maps.Clone(before)
	almost["operator-password"] = append(bytes.Clone(before["operator-password"]), '\n')
	s.PutSecret(authSecret, almost)
	c.WaitTold(30*time.Second, fmt.Sprintf("Secret %q has no owner, and its passwords are not those in force", authSecret))
	for _, addr := range c.Addresses() {
		if err := c.Do(addr, c.User, "PING"); err != nil {
			t.Errorf("%s does not serve: %v", addr, err)
		}
	}
	s.PutSecret(authSecret, before) // from a backup
	c.WaitCondition(30*time.Second, valkeyv1alpha1.ConditionDegraded, metav1.ConditionFalse)
	if !isSameData(before, waitBothSecrets(s)) {
		t.Error("the backup is not what is in force")
	}
	c.Settle(20*time.Second, 1, 1)
	if !maps.Equal(pods, c.UIDs()) {
		t.Error("pods were replaced")
	}
	s.AssertNoSecrets(before)
}

// The operator is killed at each step of a rotation, and the Secret is deleted before it comes back.
func TestARotationGoesOnWhereItsSecretIsDeletedAtEachStep(t *testing.T) {
	t.Parallel()
	s := lab.NewSite(t, lab.Options{OperatorArgs: lab.NoLease})
	c := s.Create("cache", 1, 1)
	c.Settle(aMinuteAndABit, 1, 1)
	before, pods := waitBothSecrets(s), c.UIDs()
	c.Patch(`{"metadata":{"annotations":{"valkey.gomomento.com/rotate-credentials":"today"}}}`)
	steps := map[string]bool{}
	lab.Eventually(t, 4*time.Minute, "new passwords, and the old ones retired", func() error {
		now, err := s.Bed.Kube.CoreV1().Secrets(s.Name).Get(context.Background(), authSecret, metav1.GetOptions{})
		if err != nil {
			return err
		}
		isNew := !bytes.Equal(now.Data["operator-password"], before["operator-password"])
		step := fmt.Sprint(slices.Sorted(maps.Keys(now.Data)))
		if (isNew || len(now.Data) > 3) && !steps[step] {
			steps[step] = true
			s.Operator.Kill()
			deleteSecrets(s, authSecret)
			s.Operator.Start()
		} else if isNew && len(now.Data) == 3 {
			return nil
		}
		return fmt.Errorf("it has %s", step)
	})
	if len(steps) != 3 {
		t.Errorf("the Secret was deleted at these steps only: %v", steps)
	}
	c.WaitCondition(aMinuteAndABit, valkeyv1alpha1.ConditionACLsInSync, metav1.ConditionTrue)
	s.AssertNoSecrets(before, waitBothSecrets(s))
	if !maps.Equal(pods, c.UIDs()) {
		t.Error("pods were replaced")
	}
	// Every replica has to log in anew.
	c.Watch().Fault()
	c.DeletePods(nil, lab.Pods(c.AssertShape(1, 1).Primaries()[0])...)
	c.Settle(aMinuteAndABit, 1, 1)
}

package resolve

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/acl"
)

// ACL resolves the roles of a cluster's users: those of its config chain (Resolved.Acl), then its
// own. The system users' passwords are the caller's to add. An *Error holds back ACL changes
// and nothing else (contract §4).
func ACL(menu Menu, fromConfig, own []v1alpha1.AclBinding) (acl.Input, error) {
	in := acl.Input{Config: bindings(fromConfig), Cluster: bindings(own), Roles: map[string]acl.Role{}}
	seen := map[string]bool{}
	for _, binding := range append(append([]acl.Binding(nil), in.Config...), in.Cluster...) {
		user := binding.Username
		if seen[user] {
			return acl.Input{}, &Error{ReasonDuplicateUsername,
				fmt.Sprintf("duplicate username %q in merged ACL bindings", user)}
		}
		seen[user] = true
		for _, permission := range binding.Permissions {
			role, err := menu.Roles.Get(permission.Role)
			if apierrors.IsNotFound(err) {
				return acl.Input{}, &Error{ReasonRoleNotFound,
					fmt.Sprintf("ValkeyRole %q not found (referenced by user %q)", permission.Role, user)}
			}
			if err != nil {
				return acl.Input{}, fmt.Errorf("look up ValkeyRole %q: %w", permission.Role, err)
			}
			in.Roles[permission.Role] = rules(role.Spec)
		}
	}
	return in, nil
}

func bindings(from []v1alpha1.AclBinding) []acl.Binding {
	var out []acl.Binding
	for _, b := range from {
		one := acl.Binding{Username: b.Username, PasswordHashes: b.PasswordHashes}
		for _, p := range b.Permissions {
			permission := acl.Permission{Role: p.RoleRef, Channels: p.Channels}
			for _, key := range p.Keys {
				permission.Keys = append(permission.Keys, acl.Key{Pattern: key.Pattern, Access: acl.Access(key.Access)})
			}
			one.Permissions = append(one.Permissions, permission)
		}
		out = append(out, one)
	}
	return out
}

func rules(spec v1alpha1.ValkeyRoleSpec) acl.Role {
	var out acl.Role
	for _, c := range spec.Categories {
		out.Categories = append(out.Categories, acl.Category{
			Name: c.Name, Deny: c.Access == v1alpha1.RoleAccessDeny})
	}
	for _, c := range spec.Commands {
		out.Commands = append(out.Commands, acl.Command{
			Name: c.Name, Subcommand: c.Subcommand, Deny: c.Access == v1alpha1.RoleAccessDeny})
	}
	return out
}

// Package resolve turns the names in a ValkeyCluster into what they stand for: the chain of
// ValkeyConfigs, the ValkeyImage, the ValkeyRoles (contract §1, §4, §6). It does no IO: the menu
// is what the informers have.
//
// What it refuses is the user's to mend and is an *Error, worded for a condition.
package resolve

import (
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
	"github.com/momentohq/valkey-operator/pkg/valkey/config"
)

// Menu is what the platform team offers. The generated listers are one.
type Menu struct {
	Configs interface {
		Get(name string) (*v1alpha1.ValkeyConfig, error)
	}
	Images interface {
		Get(name string) (*v1alpha1.ValkeyImage, error)
	}
	Roles interface {
		Get(name string) (*v1alpha1.ValkeyRole, error)
	}
}

// Error is a reference that cannot be resolved. The user mends it; the next pass sees that.
type Error struct {
	// Reason is one word for a condition.
	Reason string
	// Message is the sentence of contract §6.
	Message string
}

func (e *Error) Error() string { return e.Message }

// The reasons of an Error.
const (
	ReasonConfigNotFound     = "ConfigNotFound"
	ReasonInheritanceTooDeep = "InheritanceTooDeep"
	ReasonNoImage            = "NoImage"
	ReasonImageNotFound      = "ImageNotFound"
	ReasonVersionTooOld      = "VersionTooOld"
	ReasonVersionMalformed   = "VersionMalformed"
	ReasonRoleNotFound       = "RoleNotFound"
	ReasonDuplicateUsername  = "DuplicateUsername"
)

// Resolved is what a cluster's nodes are made of.
type Resolved struct {
	// Image as a container runtime takes it, and the name of the ValkeyImage that says so.
	Image, ImageRef string
	// Version is the engine that the image is declared to hold.
	Version Version
	// CPU and Memory are request and limit of each node; nil for neither.
	CPU, Memory *resource.Quantity
	// Settings is the user's merged map, before defaults and forced settings.
	Settings map[string]string
	// Acl are the bindings of the config chain, without the cluster's own.
	Acl []v1alpha1.AclBinding
}

// Cluster resolves all but the ACL of a cluster. An error that is not an *Error is a fault
// of the menu.
func Cluster(menu Menu, spec *v1alpha1.ValkeyClusterSpec) (Resolved, error) {
	out, err := chain(menu, spec.ConfigRef)
	if err != nil {
		return Resolved{}, err
	}
	image, err := menu.Images.Get(out.ImageRef)
	if apierrors.IsNotFound(err) {
		return Resolved{}, &Error{ReasonImageNotFound, fmt.Sprintf("ValkeyImage %q not found", out.ImageRef)}
	}
	if err != nil {
		return Resolved{}, fmt.Errorf("look up ValkeyImage %q: %w", out.ImageRef, err)
	}
	out.Image = imageName(image.Spec)
	out.Version, err = declaredVersion(image)
	if err != nil {
		return Resolved{}, err
	}
	return out, nil
}

// chain walks from a config along baseRef. What is set first wins; valkey is merged key by key.
func chain(menu Menu, name string) (Resolved, error) {
	out := Resolved{Settings: map[string]string{}}
	for depth := 1; ; depth++ {
		// Before the look-up: the 11th is too deep whether it is there or not.
		if depth > v1alpha1.MaxConfigDepth {
			return Resolved{}, &Error{ReasonInheritanceTooDeep,
				fmt.Sprintf("config inheritance depth exceeds %d (cycle?)", v1alpha1.MaxConfigDepth)}
		}
		one, err := menu.Configs.Get(name)
		if apierrors.IsNotFound(err) {
			return Resolved{}, &Error{ReasonConfigNotFound, fmt.Sprintf("ValkeyConfig %q not found", name)}
		}
		if err != nil {
			return Resolved{}, fmt.Errorf("look up ValkeyConfig %q: %w", name, err)
		}
		out.inherit(&one.Spec)
		if one.Spec.BaseRef == "" {
			break
		}
		name = one.Spec.BaseRef
	}
	if out.ImageRef == "" {
		return Resolved{}, &Error{ReasonNoImage, fmt.Sprintf("no image_ref in config chain ending at %q", name)}
	}
	return out, nil
}

// inherit adds what a config says where no child has said it.
func (r *Resolved) inherit(spec *v1alpha1.ValkeyConfigSpec) {
	if r.ImageRef == "" {
		r.ImageRef = spec.ImageRef
	}
	if from := spec.Resources; from != nil {
		if r.CPU == nil {
			r.CPU = from.CPU
		}
		if r.Memory == nil {
			r.Memory = from.Memory
		}
	}
	for key, value := range spec.Valkey {
		if _, set := r.Settings[key]; !set {
			r.Settings[key] = value
		}
	}
	// A list that is empty was written to say "nobody"; one that is absent was not.
	if r.Acl == nil {
		r.Acl = spec.Acl
	}
}

func imageName(spec v1alpha1.ValkeyImageSpec) string {
	if len(spec.Tag) > len(digest) && spec.Tag[:len(digest)] == digest {
		return spec.Repository + "@" + spec.Tag
	}
	return spec.Repository + ":" + spec.Tag
}

const digest = "sha256:"

// Inputs is what makes a node outdated (contract §1, spec.revision): for config.Revision and
// config.Outdated.
func (r Resolved) Inputs(placement *v1alpha1.Placement) config.Inputs {
	in := config.Inputs{Image: r.Image, Valkey: maps.Clone(r.Settings)}
	if r.CPU != nil {
		in.CPU = canonical(*r.CPU)
	}
	if r.Memory != nil {
		in.Memory = canonical(*r.Memory)
	}
	if placement != nil {
		in.Zones, in.NodeSelector = placement.Zones, placement.NodeSelector
	}
	return in
}

// canonical is the same text for the same amount, whatever its suffix: 1000m and 1, 1Gi and
// 1024Mi and 1073741824 are no difference to a node.
func canonical(q resource.Quantity) string {
	text := q.AsDec().String()
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

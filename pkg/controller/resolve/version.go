package resolve

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// Version is that of a Valkey engine.
type Version struct{ Major, Minor, Patch int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }

// Compare is negative, zero or positive where v is older than, as old as or newer than the other.
func (v Version) Compare(other Version) int {
	return cmp.Or(v.Major-other.Major, v.Minor-other.Minor, v.Patch-other.Patch)
}

// Floor is the oldest engine that may join a cluster: atomic slot migration came with it.
var Floor = Version{Major: 9}

// ParseVersion reads MAJOR.MINOR.PATCH, as in ValkeyImage.spec.version and as servers
// report it: numbers without signs or leading zeros.
func ParseVersion(text string) (Version, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return Version{}, fmt.Errorf("version %q is not MAJOR.MINOR.PATCH", text)
	}
	var numbers [3]int
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || strconv.Itoa(n) != part {
			return Version{}, fmt.Errorf("version %q is not MAJOR.MINOR.PATCH", text)
		}
		numbers[i] = n
	}
	return Version{numbers[0], numbers[1], numbers[2]}, nil
}

// Warning says what is known to be wrong with an engine that is allowed to run; empty for none
// (contract §8, engine.md).
func (v Version) Warning() string {
	switch v {
	case Version{9, 0, 0}:
		return "Valkey 9.0.0 is not supported: use 9.0.1 or later"
	case Version{9, 0, 5}, Version{9, 1, 0}, Version{9, 1, 1}:
		return fmt.Sprintf("in Valkey %s slot migrations can break under heavy writes where io-threads is above 1: use a later patch level", v)
	}
	return ""
}

// declaredVersion is refused below the floor. The API server refuses that too, unless
// its schema is older than the operator.
func declaredVersion(image *v1alpha1.ValkeyImage) (Version, error) {
	version, err := ParseVersion(image.Spec.Version)
	if err != nil {
		return Version{}, &Error{ReasonVersionMalformed, fmt.Sprintf("ValkeyImage %q: %s", image.Name, err)}
	}
	if version.Compare(Floor) < 0 {
		return Version{}, &Error{ReasonVersionTooOld,
			fmt.Sprintf("ValkeyImage %q: version %s is below %s", image.Name, version, Floor)}
	}
	return version, nil
}

package config

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Inputs are what makes a node outdated when it changes (contract §1,
// spec.revision); nothing else does.
type Inputs struct {
	// Image is the pod's image, resolved.
	Image string
	// CPU and Memory are canonical quantities, so that 1000m and 1 are the
	// same; empty where the user gave none.
	CPU, Memory string
	// Valkey is the user's merged map, before defaults and forced settings: a
	// new operator with other defaults outdates nothing.
	Valkey map[string]string
	// Zones is a set: order and repetition do not matter.
	Zones        []string
	NodeSelector map[string]string
}

// revisionV1 is the prefix that says how the rest was computed.
const revisionV1 = "v1:"

// Revision is "v1:" and the sha256 of the inputs in hexadecimal. How it is
// computed never changes; another way is another prefix.
//
// Hashed is, for each input in the order of Inputs' fields, its name, the number of strings that
// follow, and these strings, maps as key, value, key, value, … sorted by key; each
// string and number with its length before it ("5:image"), so that no two
// inputs read alike.
func Revision(in Inputs) string {
	h := sha256.New()
	writeField(h, "image", in.Image)
	writeField(h, "cpu", in.CPU)
	writeField(h, "memory", in.Memory)
	writeField(h, "valkey", pairs(in.Valkey)...)
	writeField(h, "zones", slices.Compact(slices.Sorted(slices.Values(in.Zones)))...)
	writeField(h, "nodeSelector", pairs(in.NodeSelector)...)
	return revisionV1 + hex.EncodeToString(h.Sum(nil))
}

func writeField(h hash.Hash, name string, values ...string) {
	writeString(h, name)
	writeString(h, strconv.Itoa(len(values)))
	for _, v := range values {
		writeString(h, v)
	}
}

func writeString(h hash.Hash, s string) {
	// A hash never fails to be written to.
	_, _ = h.Write([]byte(strconv.Itoa(len(s)) + ":" + s))
}

func pairs(m map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key, m[key])
	}
	return out
}

// Outdated says whether a node with this revision differs from what is wanted
// now. A revision with a prefix that this release does not know was written by
// a newer one and cannot be judged: such a node is not outdated, or going back to an
// older operator would roll every cluster.
func Outdated(revision string, now Inputs) bool {
	return strings.HasPrefix(revision, revisionV1) && revision != Revision(now)
}

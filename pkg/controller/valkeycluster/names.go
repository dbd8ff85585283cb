package valkeycluster

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/momentohq/valkey-operator/pkg/apis/valkey/v1alpha1"
)

// nodeName is the name of the node with this serial: "{cluster}-" and the first 5 hex digits
// of sha256(cluster UID "/" serial). It is derived and not random, so that a pass that runs
// again on a stale cache comes to the same name and is refused by the API server.
func nodeName(cluster *v1alpha1.ValkeyCluster, serial int64) string {
	sum := sha256.Sum256([]byte(string(cluster.UID) + "/" + strconv.FormatInt(serial, 10)))
	return cluster.Name + "-" + hex.EncodeToString(sum[:])[:5]
}

// nextSerial is the first serial, from the remembered one on, whose name no ValkeyNode has.
func nextSerial(cluster *v1alpha1.ValkeyCluster, taken func(name string) bool) int64 {
	serial := cluster.Status.NodeSerial
	for taken(nodeName(cluster, serial)) {
		serial++
	}
	return serial
}

// nextNames are the names of the next n nodes, none of them taken and none twice: five
// digits of two serials may be the same.
func nextNames(cluster *v1alpha1.ValkeyCluster, n int, taken func(name string) bool) []string {
	var out []string
	chosen := map[string]bool{}
	for serial := nextSerial(cluster, taken); len(out) < n; serial++ {
		name := nodeName(cluster, serial)
		if !taken(name) && !chosen[name] {
			chosen[name] = true
			out = append(out, name)
		}
	}
	return out
}

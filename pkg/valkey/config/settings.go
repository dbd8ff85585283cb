package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Places in a node's container (contract §2, §3).
const (
	// DataDir holds nodes.conf and is an emptyDir.
	DataDir = "/var/lib/valkey"
	// File is the rendered configuration, the server's only argument.
	File = "/etc/valkey/valkey.conf"
	// ACLFile is the rendered users.acl.
	ACLFile = "/etc/valkey/acl/users.acl"
	// AuthFile holds the replication password alone; File includes it.
	AuthFile = "/etc/valkey/auth/primaryauth.conf"
	// TLSDir holds tls.crt, tls.key and ca.crt.
	TLSDir = "/etc/valkey/tls"
)

// ReplUser is the Valkey user as whom replicas and slot migrations
// authenticate at a primary (contract §4).
const ReplUser = "_momento_repl"

// TLS is what a node needs to know of its TLS.
type TLS struct {
	// Hostname is announced to clients so that certificates match:
	// {pod}.{cluster}.{namespace}.svc.{domain}.
	Hostname string
}

// defaults may be overridden by the user (contract §3). A cache needs no
// snapshots, and one child process at a time means that a BGSAVE would hold up full
// syncs and slot migrations; the sync delay of 5 s would be waited for by each
// roll; on SIGTERM a primary hands over before it leaves.
var defaults = map[string]string{
	"save":                     "",
	"repl-diskless-sync-delay": "0",
	"shutdown-on-sigterm":      "failover",
}

// forced settings win over the user's (contract §3). The operator stands on
// each of them: cluster mode, where files and ports are, who replicates as whom, and
// that Valkey neither moves replicas between shards by itself nor refuses
// to elect a replica that was cut off for long.
var forced = map[string]string{
	"cluster-enabled":                 "yes",
	"cluster-node-timeout":            "5000",
	"cluster-config-file":             DataDir + "/nodes.conf",
	"cluster-allow-replica-migration": "no",
	"cluster-replica-validity-factor": "0",
	"dir":                             DataDir,
	"port":                            "6379",
	"bind":                            "0.0.0.0 -::*",
	"protected-mode":                  "no",
	"aclfile":                         ACLFile,
	"primaryuser":                     ReplUser,
}

// forcedTLS replaces or joins the forced settings of a cluster with TLS.
var forcedTLS = map[string]string{
	"port":                            "0",
	"tls-port":                        "6379",
	"tls-cluster":                     "yes",
	"tls-replication":                 "yes",
	"tls-cert-file":                   TLSDir + "/tls.crt",
	"tls-key-file":                    TLSDir + "/tls.key",
	"tls-ca-cert-file":                TLSDir + "/ca.crt",
	"tls-auth-clients":                "no",
	"cluster-preferred-endpoint-type": "hostname",
}

// announceHostname is forced with TLS too; its value differs from node to node.
const announceHostname = "cluster-announce-hostname"

// aliases are older names that Valkey still takes for forced settings: written
// beside the forced name they would be the same directive twice.
var aliases = map[string]string{
	"cluster-slave-validity-factor": "cluster-replica-validity-factor",
	"masteruser":                    "primaryuser",
	"masterauth":                    "primaryauth",
}

// Freeze is the whole configuration of one node but for the replication
// password: defaults, the user's merged map over them, the forced settings over
// both. tls is nil for a cluster without TLS. The user's map is not changed.
func Freeze(user map[string]string, tls *TLS) map[string]string {
	out := maps.Clone(defaults)
	for key, value := range user {
		if !isForced(key, tls != nil) {
			out[key] = value
		}
	}
	maps.Copy(out, forced)
	if tls != nil {
		maps.Copy(out, forcedTLS)
		out[announceHostname] = tls.Hostname
	}
	return out
}

// Overridden lists, sorted, which keys of the user's map the forced settings
// override. They are accepted, have no effect and are named in a condition.
func Overridden(user map[string]string, tls bool) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(user)) {
		if isForced(key, tls) {
			out = append(out, key)
		}
	}
	return out
}

func isForced(key string, tls bool) bool {
	if name, ok := aliases[key]; ok {
		key = name
	}
	_, plain := forced[key]
	_, withTLS := forcedTLS[key]
	return plain || key == "primaryauth" || tls && (withTLS || key == announceHostname)
}

// Render writes a node's frozen settings as valkey.conf: equal settings give
// equal bytes. It fails only for a key that is no directive's name ([a-z0-9-], a letter
// first), which the API server does not let through.
func Render(settings map[string]string) (string, error) {
	_, tls := settings["tls-port"]
	var own, last strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		section := &own
		if isForced(key, tls) {
			section = &last
		}
		line, err := directive(key, settings[key])
		if err != nil {
			return "", err
		}
		section.WriteString(line)
	}
	return "# Written by valkey-operator, once, when this node was created.\n" +
		own.String() +
		"\n# Forced by the operator.\n" +
		last.String() +
		"include " + AuthFile + "\n", nil
}

// severalWords are directives whose arguments are written apart, as people write them,
// when none needs quotes. Valkey reads both forms alike; only the look differs.
var severalWords = map[string]bool{
	"bind": true, "save": true, "client-output-buffer-limit": true, "oom-score-adj-values": true,
	"latency-tracking-info-percentiles": true, "shutdown-on-sigterm": true, "shutdown-on-sigint": true,
}

func directive(key, value string) (string, error) {
	if !isName(key) {
		return "", fmt.Errorf("valkey setting %q: not the name of a directive", key)
	}
	if key == "loadmodule" {
		words, err := split(value)
		if err != nil {
			words = strings.Fields(value) // quotes that do not balance are no quotes
		}
		for i := range words {
			words[i] = Quote(words[i])
		}
		return key + " " + strings.Join(words, " ") + "\n", nil
	}
	words := strings.Split(value, " ")
	if severalWords[key] && !slices.ContainsFunc(words, func(w string) bool { return !isPlain(w) }) {
		return key + " " + value + "\n", nil
	}
	return key + " " + Quote(value) + "\n", nil
}

func isName(key string) bool {
	for i, c := range []byte(key) {
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return key != ""
}

// PrimaryAuth is the file that Render's last line includes: the replication
// password and nothing else, kept in a Secret.
func PrimaryAuth(password string) string { return "primaryauth " + Quote(password) + "\n" }

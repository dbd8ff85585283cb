package apiserver

import "testing"

func TestAValkeyClusterHasANameThatItsPodsCanCarry(t *testing.T) {
	const (
		length = "the name of a ValkeyCluster has at most 57 characters"
		label  = "the name of a ValkeyCluster starts with a letter and has only lower-case letters, digits and '-', as it names a Service"
	)
	check(t, cluster, []row{
		{"a name of one letter is accepted", `metadata: {name: a}`, ``},
		{"a name with digits and hyphens is accepted", `metadata: {name: a-1-b2}`, ``},
		{"a name of 57 characters is accepted", `metadata: {name: {{rep 57 "n"}}}`, ``},
		{"a name of 58 characters is refused", `metadata: {name: {{rep 58 "n"}}}`, length},
		{"a name of 253 characters is refused", `metadata: {name: {{rep 253 "n"}}}`, length},
		{"a name that starts with a digit is refused", `metadata: {name: 1a}`, label},
		{"a name with a dot is refused", `metadata: {name: a.b}`, label},
		{"a name that ends with a hyphen is refused", `metadata: {name: a-}`, `metadata.name`},
		{"a name in upper case is refused", `metadata: {name: A}`, `metadata.name`},
		{"a generated name is accepted", `metadata: {name: null, generateName: cache-}`, ``},
	})
}

func TestAValkeyClusterHasShardsAndReplicas(t *testing.T) {
	const total = "shards * (1 + replicasPerShard) must be at most 16384 nodes"
	check(t, cluster, []row{
		{"the smallest cluster is accepted", ``, ``},
		{"a missing spec is refused", `spec: null`, `spec: Required value`},
		{"a missing configRef is refused", `spec: {configRef: null}`, `spec.configRef: Required value`},
		{"an empty configRef is refused", `spec: {configRef: ""}`, `spec.configRef in body should be at least 1 chars long`},
		{"a configRef of 253 characters is accepted", `spec: {configRef: {{rep 253 "c"}}}`, ``},
		{"a configRef of 254 characters is refused", `spec: {configRef: {{rep 254 "c"}}}`, `spec.configRef: Too long: may not be more than 253 bytes`},
		{"a configRef that names nothing is accepted, as references are resolved later", `spec: {configRef: nobody}`, ``},
		{"one shard is accepted", `spec: {shards: 1}`, ``},
		{"no shard is refused", `spec: {shards: 0}`, `spec.shards in body should be greater than or equal to 1`},
		{"-1 shards are refused", `spec: {shards: -1}`, `spec.shards in body should be greater than or equal to 1`},
		{"missing shards are refused", `spec: {shards: null}`, `spec.shards: Required value`},
		{"a shard for each slot is accepted", `spec: {shards: 16384, replicasPerShard: 0}`, ``},
		{"more shards than slots are refused", `spec: {shards: 16385, replicasPerShard: 0}`, `spec.shards in body should be less than or equal to 16384`},
		{"half a shard is refused", `spec: {shards: 1.5}`, `spec.shards in body must be of type int32`},
		{"shards in words are refused", `spec: {shards: "3"}`, `spec.shards in body must be of type integer`},
		{"shards beyond 32 bits are refused", `spec: {shards: 4294967297}`, `spec.shards in body should be less than or equal to 16384`},
		{"no replica is accepted", `spec: {replicasPerShard: 0}`, ``},
		{"-1 replicas are refused", `spec: {replicasPerShard: -1}`, `spec.replicasPerShard in body should be greater than or equal to 0`},
		{"missing replicas are refused", `spec: {replicasPerShard: null}`, `spec.replicasPerShard: Required value`},
		{"16384 nodes of one shard are accepted", `spec: {shards: 1, replicasPerShard: 16383}`, ``},
		{"16385 nodes of one shard are refused", `spec: {shards: 1, replicasPerShard: 16384}`, `spec.replicasPerShard in body should be less than or equal to 16383`},
		{"16384 nodes of many shards are accepted", `spec: {shards: 4096, replicasPerShard: 3}`, ``},
		{"16388 nodes of many shards are refused", `spec: {shards: 4097, replicasPerShard: 3}`, total},
	})
}

func TestAValkeyClusterHasAPlacement(t *testing.T) {
	check(t, cluster, []row{
		{"an empty placement is accepted", `spec: {placement: {}}`, ``},
		{"a placement with every field is accepted", `spec: {placement: {zones: [a, b], zoneSpread: required, nodeSelector: {kubernetes.io/arch: arm64}}}`, ``},
		{"a zone twice is accepted, as zones are a set", `spec: {placement: {zones: [a, a]}}`, ``},
		{"64 zones are accepted", `spec: {placement: {zones: {{list 64 "z%d"}}}}`, ``},
		{"65 zones are refused", `spec: {placement: {zones: {{list 65 "z%d"}}}}`, `spec.placement.zones: Too many: 65: must have at most 64 items`},
		{"a zone of 63 characters is accepted", `spec: {placement: {zones: [{{rep 63 "z"}}]}}`, ``},
		{"a zone of 64 characters is refused", `spec: {placement: {zones: [{{rep 64 "z"}}]}}`, `spec.placement.zones[0]: Too long: may not be more than 63 bytes`},
		{"an empty zone is refused", `spec: {placement: {zones: [""]}}`, `spec.placement.zones[0] in body should be at least 1 chars long`},
		{"zoneSpread bestEffort is accepted", `spec: {placement: {zoneSpread: bestEffort}}`, ``},
		{"zoneSpread required is accepted", `spec: {placement: {zoneSpread: required}}`, ``},
		{"zoneSpread in another case is refused", `spec: {placement: {zoneSpread: Required}}`, `Unsupported value: "Required": supported values: "bestEffort", "required"`},
		{"an empty zoneSpread is refused", `spec: {placement: {zoneSpread: ""}}`, `Unsupported value: "": supported values: "bestEffort", "required"`},
		{"64 node labels are accepted", `spec: {placement: {nodeSelector: {{map 64 "l%d" "v"}}}}`, ``},
		{"65 node labels are refused", `spec: {placement: {nodeSelector: {{map 65 "l%d" "v"}}}}`, `spec.placement.nodeSelector: Too many: 65: must have at most 64 items`},
		{"an empty label value is accepted", `spec: {placement: {nodeSelector: {a: ""}}}`, ``},
		{"a label value of 63 characters is accepted", `spec: {placement: {nodeSelector: {a: {{rep 63 "v"}}}}}`, ``},
		{"a label value of 64 characters is refused", `spec: {placement: {nodeSelector: {a: {{rep 64 "v"}}}}}`, `spec.placement.nodeSelector.a: Too long: may not be more than 63 bytes`},
		{"a label key of 317 characters is accepted", `spec: {placement: {nodeSelector: { {{rep 317 "k"}}: v}}}`, ``},
		{"a label key of 318 characters is refused", `spec: {placement: {nodeSelector: { {{rep 318 "k"}}: v}}}`, `a label key has at most 317 characters`},
		{"a label value that YAML takes for a boolean is refused", `spec: {placement: {nodeSelector: {a: true}}}`, `spec.placement.nodeSelector.a in body must be of type string`},
	})
}

func TestAValkeyClusterHasTLSAndAnnotations(t *testing.T) {
	const reserved = "annotation keys under valkey.gomomento.com/ are reserved for the operator"
	check(t, cluster, []row{
		{"a secretRef is accepted", `spec: {tls: {secretRef: certificate}}`, ``},
		{"a secretRef of 253 characters is accepted", `spec: {tls: {secretRef: {{rep 253 "s"}}}}`, ``},
		{"a secretRef of 254 characters is refused", `spec: {tls: {secretRef: {{rep 254 "s"}}}}`, `spec.tls.secretRef: Too long: may not be more than 253 bytes`},
		{"an empty secretRef is refused", `spec: {tls: {secretRef: ""}}`, `spec.tls.secretRef in body should be at least 1 chars long`},
		{"tls without secretRef is refused", `spec: {tls: {}}`, `spec.tls.secretRef: Required value`},
		{"an annotation is accepted", `spec: {podAnnotations: {example.com/a: b, c: ""}}`, ``},
		{"128 annotations are accepted", `spec: {podAnnotations: {{map 128 "a%d" "v"}}}`, ``},
		{"129 annotations are refused", `spec: {podAnnotations: {{map 129 "a%d" "v"}}}`, `spec.podAnnotations: Too many: 129: must have at most 128 items`},
		{"an annotation of 65536 characters is accepted", `spec: {podAnnotations: {a: {{rep 65536 "v"}}}}`, ``},
		{"an annotation of 65537 characters is refused", `spec: {podAnnotations: {a: {{rep 65537 "v"}}}}`, `spec.podAnnotations.a: Too long: may not be more than 65536 bytes`},
		{"an annotation key of 317 characters is accepted", `spec: {podAnnotations: { {{rep 317 "k"}}: v}}`, ``},
		{"an annotation key of 318 characters is refused", `spec: {podAnnotations: { {{rep 318 "k"}}: v}}`, `an annotation key has at most 317 characters`},
		{"an annotation of the operator is refused", `spec: {podAnnotations: {valkey.gomomento.com/paused: "true"}}`, reserved},
		{"any annotation under the operator's prefix is refused", `spec: {podAnnotations: {valkey.gomomento.com/x: z}}`, reserved},
		{"an annotation whose prefix only looks alike is accepted", `spec: {podAnnotations: {valkey.gomomento.com.example/x: z, avalkey.gomomento.com/x: z}}`, ``},
		{"a cluster with every field is accepted", `spec: {acl: [` + binding() + `], placement: {zones: [a], zoneSpread: required, nodeSelector: {b: c}}, tls: {secretRef: s}, podAnnotations: {d: e}}`, ``},
	})
}

func TestAValkeyNodeIsWhatAPodIsMadeFrom(t *testing.T) {
	const (
		name  = "the name of a ValkeyNode is a DNS label of at most 63 characters, as it is its pod's host name"
		value = "a directive value has no control character"
	)
	check(t, node, []row{
		{"the smallest node is accepted", ``, ``},
		{"a node with every field is accepted", `spec: {cpu: 500m, memory: 1Gi, valkeySettings: {save: ""}, tlsSecret: s, placement: {zones: [a]}, lifecycle: Joining, revision: "v1:{{hash}}"}`, ``},
		{"a missing spec is refused", `spec: null`, `spec: Required value`},
		{"a name of 63 characters is accepted", `metadata: {name: {{rep 63 "n"}}}`, ``},
		{"a name of 64 characters is refused", `metadata: {name: {{rep 64 "n"}}}`, name},
		{"a name with a dot is refused", `metadata: {name: a.b}`, name},
		{"a missing clusterName is refused", `spec: {clusterName: null}`, `spec.clusterName: Required value`},
		{"an empty clusterName is refused", `spec: {clusterName: ""}`, `spec.clusterName in body should be at least 1 chars long`},
		{"a clusterName of 57 characters is accepted", `spec: {clusterName: {{rep 57 "c"}}}`, ``},
		{"a clusterName of 58 characters is refused", `spec: {clusterName: {{rep 58 "c"}}}`, `spec.clusterName: Too long: may not be more than 57 bytes`},
		{"a missing image is refused", `spec: {image: null}`, `spec.image: Required value`},
		{"an empty image is refused", `spec: {image: ""}`, `spec.image in body should be at least 1 chars long`},
		{"an image of 1024 characters is accepted", `spec: {image: {{rep 1024 "i"}}}`, ``},
		{"an image of 1025 characters is refused", `spec: {image: {{rep 1025 "i"}}}`, `spec.image: Too long: may not be more than 1024 bytes`},
		{"a missing shardIndex is refused", `spec: {shardIndex: null}`, `spec.shardIndex: Required value`},
		{"shardIndex -1 is refused", `spec: {shardIndex: -1}`, `spec.shardIndex in body should be greater than or equal to 0`},
		{"cpu as a number is accepted", `spec: {cpu: 2}`, ``},
		{"cpu of 33 characters is refused", `spec: {cpu: "{{rep 33 "1"}}"}`, `cpu has at most 32 characters`},
		{"memory of 33 characters is refused", `spec: {memory: "{{rep 33 "1"}}"}`, `memory has at most 32 characters`},
		{"memory that is no quantity is refused", `spec: {memory: much}`, `spec.memory in body should match`},
		{"768 settings are accepted", `spec: {valkeySettings: {{map 768 "d%d" "v"}}}`, ``},
		{"769 settings are refused", `spec: {valkeySettings: {{map 769 "d%d" "v"}}}`, `spec.valkeySettings: Too many: 769: must have at most 768 items`},
		{"a setting with a line break is refused", `spec: {valkeySettings: {a: "b\nc"}}`, value},
		{"a setting's name of 129 characters is refused", `spec: {valkeySettings: { {{rep 129 "d"}}: a}}`, `a directive name has at most 128 characters`},
		{"a tlsSecret of 254 characters is refused", `spec: {tlsSecret: {{rep 254 "s"}}}`, `spec.tlsSecret: Too long: may not be more than 253 bytes`},
		{"an empty tlsSecret is refused", `spec: {tlsSecret: ""}`, `spec.tlsSecret in body should be at least 1 chars long`},
		{"lifecycle Leaving is accepted", `spec: {lifecycle: Leaving}`, ``},
		{"an unknown lifecycle is refused", `spec: {lifecycle: Gone}`, `Unsupported value: "Gone": supported values: "Joining", "Active", "Leaving"`},
		{"a revision of 129 characters is refused", `spec: {revision: {{rep 129 "r"}}}`, `spec.revision: Too long: may not be more than 128 bytes`},
		{"an unknown zoneSpread is refused", `spec: {placement: {zoneSpread: maybe}}`, `Unsupported value: "maybe"`},
	})
}

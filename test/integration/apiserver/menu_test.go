package apiserver

import "testing"

func TestAValkeyImageNamesAnImageAndAFullVersion(t *testing.T) {
	const (
		full  = "version must be a full MAJOR.MINOR.PATCH, for example 9.1.2"
		floor = "version must be at least 9.0.0"
	)
	check(t, image, []row{
		{"the smallest image is accepted", ``, ``},
		{"a repository of 512 characters is accepted", `spec: {repository: {{rep 512 "r"}}}`, ``},
		{"a repository of 513 characters is refused", `spec: {repository: {{rep 513 "r"}}}`, `spec.repository: Too long: may not be more than 512 bytes`},
		{"a repository with a port and a path is accepted", `spec: {repository: "localhost:5000/team/valkey"}`, ``},
		{"an empty repository is refused", `spec: {repository: ""}`, `spec.repository in body should be at least 1 chars long`},
		{"a missing repository is refused", `spec: {repository: null}`, `spec.repository: Required value`},
		{"a tag of 128 characters is accepted", `spec: {tag: {{rep 128 "t"}}}`, ``},
		{"a tag of 129 characters is refused", `spec: {tag: {{rep 129 "t"}}}`, `spec.tag: Too long: may not be more than 128 bytes`},
		{"a digest as tag is accepted", `spec: {tag: "sha256:{{hash}}"}`, ``},
		{"an empty tag is refused", `spec: {tag: ""}`, `spec.tag in body should be at least 1 chars long`},
		{"a missing tag is refused", `spec: {tag: null}`, `spec.tag: Required value`},
		{"a tag that YAML takes for a number is refused", `spec: {tag: 9.1}`, `spec.tag in body must be of type string`},
		{"a missing version is refused", `spec: {version: null}`, `spec.version: Required value`},
		{"an empty version is refused", `spec: {version: ""}`, `spec.version in body should be at least 1 chars long`},
		{"version 9.0.0 is accepted", `spec: {version: 9.0.0}`, ``},
		{"version 9.0.1 is accepted", `spec: {version: 9.0.1}`, ``},
		{"version 10.0.0 is accepted", `spec: {version: 10.0.0}`, ``},
		{"version 8.1.9 is refused", `spec: {version: 8.1.9}`, floor},
		{"version 8.99.99 is refused", `spec: {version: 8.99.99}`, floor},
		{"version 0.9.0 is refused", `spec: {version: 0.9.0}`, floor},
		{"a version without a patch level is refused", `spec: {version: "9.1"}`, full},
		{"a version of four numbers is refused", `spec: {version: 9.1.2.3}`, full},
		{"a version with a v is refused", `spec: {version: v9.1.2}`, full},
		{"a release candidate is refused", `spec: {version: 9.1.0-rc1}`, full},
		{"a version with a leading zero is refused", `spec: {version: 9.01.2}`, full},
		{"a version with a trailing line break is refused", `spec: {version: "9.1.2\n"}`, full},
		{"a version of 33 characters is refused", `spec: {version: "9.1.{{rep 29 "1"}}"}`, `spec.version: Too long: may not be more than 32 bytes`},
		{"a version of 32 characters is accepted", `spec: {version: "9.1.{{rep 28 "1"}}"}`, ``},
		{"a missing spec is refused", `spec: null`, `spec: Required value`},
		{"an unknown field is refused where the client asks for it", `spec: {digest: a}`, `unknown field "spec.digest"`},
	})
}

func TestAValkeyConfigTakesReferencesAndResources(t *testing.T) {
	const (
		cpu    = "cpu must be a valid, positive quantity, for example 500m or 2"
		memory = "memory must be a valid, positive quantity, for example 512Mi or 4Gi"
	)
	check(t, config, []row{
		{"an empty spec is accepted, as every field is optional", `spec: {imageRef: null}`, ``},
		{"a missing spec is refused", `spec: null`, `spec: Required value`},
		{"a config with every field is accepted", `spec: {imageRef: a, baseRef: b, resources: {cpu: 500m, memory: 1Gi}, valkey: {maxmemory: 1gb}, acl: [{username: u, passwordHashes: ["{{hash}}"], permissions: [{roleRef: r, keys: [{pattern: "*"}]}]}]}`, ``},
		{"an imageRef of 253 characters is accepted", `spec: {imageRef: {{rep 253 "i"}}}`, ``},
		{"an imageRef of 254 characters is refused", `spec: {imageRef: {{rep 254 "i"}}}`, `spec.imageRef: Too long: may not be more than 253 bytes`},
		{"an empty imageRef is refused", `spec: {imageRef: ""}`, `spec.imageRef in body should be at least 1 chars long`},
		{"a baseRef of 253 characters is accepted", `spec: {baseRef: {{rep 253 "b"}}}`, ``},
		{"a baseRef of 254 characters is refused", `spec: {baseRef: {{rep 254 "b"}}}`, `spec.baseRef: Too long: may not be more than 253 bytes`},
		{"an empty baseRef is refused", `spec: {baseRef: ""}`, `spec.baseRef in body should be at least 1 chars long`},
		{"a baseRef that names nothing is accepted, as references are resolved later", `spec: {baseRef: nobody}`, ``},
		{"cpu alone is accepted", `spec: {resources: {cpu: "2"}}`, ``},
		{"cpu as a number is accepted", `spec: {resources: {cpu: 2}}`, ``},
		{"cpu of 1m is accepted", `spec: {resources: {cpu: 1m}}`, ``},
		{"cpu of .5 is accepted", `spec: {resources: {cpu: ".5"}}`, ``},
		{"cpu of 1e3 is accepted", `spec: {resources: {cpu: "1e3"}}`, ``},
		{"cpu of 0 is refused", `spec: {resources: {cpu: 0}}`, cpu},
		{"cpu of \"0\" is refused", `spec: {resources: {cpu: "0"}}`, cpu},
		{"cpu of 0.00 is refused", `spec: {resources: {cpu: "0.00"}}`, cpu},
		{"cpu of 0m is refused", `spec: {resources: {cpu: 0m}}`, cpu},
		{"cpu of -1 is refused", `spec: {resources: {cpu: -1}}`, cpu},
		{"cpu of -500m is refused", `spec: {resources: {cpu: "-500m"}}`, cpu},
		{"cpu in words is refused", `spec: {resources: {cpu: two}}`, cpu},
		{"an empty cpu is refused", `spec: {resources: {cpu: ""}}`, cpu},
		{"cpu of 32 characters is accepted", `spec: {resources: {cpu: "{{rep 31 "1"}}m"}}`, ``},
		{"cpu of 33 characters is refused", `spec: {resources: {cpu: "{{rep 32 "1"}}m"}}`, cpu},
		{"memory of 512Mi is accepted", `spec: {resources: {memory: 512Mi}}`, ``},
		{"memory of 1.5Gi is accepted", `spec: {resources: {memory: 1.5Gi}}`, ``},
		{"memory of 0Mi is refused", `spec: {resources: {memory: 0Mi}}`, memory},
		{"memory of -1Gi is refused", `spec: {resources: {memory: -1Gi}}`, memory},
		{"memory of 1gb, which is Valkey's unit, is refused", `spec: {resources: {memory: 1gb}}`, memory},
		{"memory with a space is refused", `spec: {resources: {memory: "1 Gi"}}`, memory},
		{"memory with an exponent of three digits is refused", `spec: {resources: {memory: "1e100"}}`, memory},
	})
}

func TestAValkeyConfigTakesWellFormedDirectives(t *testing.T) {
	const (
		name  = "a directive name starts with a lower-case letter and has only lower-case letters, digits and '-'"
		value = "a directive value has no control character"
	)
	check(t, config, []row{
		{"512 directives are accepted", `spec: {valkey: {{map 512 "d%d" "v"}}}`, ``},
		{"513 directives are refused", `spec: {valkey: {{map 513 "d%d" "v"}}}`, `spec.valkey: Too many: 513: must have at most 512 items`},
		{"a directive name with digits and hyphens is accepted", `spec: {valkey: {lfu-decay-time2: "1"}}`, ``},
		{"a directive name in upper case is refused", `spec: {valkey: {MaxMemory: 1gb}}`, name},
		{"a directive name with an underscore is refused", `spec: {valkey: {max_memory: 1gb}}`, name},
		{"a directive name that starts with a digit is refused", `spec: {valkey: {1st: a}}`, name},
		{"a directive name that starts with a hyphen is refused", `spec: {valkey: {"-a": a}}`, name},
		{"a directive name with a space is refused", `spec: {valkey: {"save 60": "1"}}`, name},
		{"an empty directive name is refused", `spec: {valkey: {"": a}}`, name},
		{"a directive name of 128 characters is accepted", `spec: {valkey: { {{rep 128 "d"}}: a}}`, ``},
		{"a directive name of 129 characters is refused", `spec: {valkey: { {{rep 129 "d"}}: a}}`, name},
		{"an empty value is accepted", `spec: {valkey: {save: ""}}`, ``},
		{"a value with spaces, quotes, backslashes and # is accepted", `spec: {valkey: {save: "60 \"a\" 'b' \\ # ü"}}`, ``},
		{"a value of 8192 characters is accepted", `spec: {valkey: {save: {{rep 8192 "v"}}}}`, ``},
		{"a value of 8193 characters is refused", `spec: {valkey: {save: {{rep 8193 "v"}}}}`, `spec.valkey.save: Too long: may not be more than 8192 bytes`},
		{"a value with a line break is refused", `spec: {valkey: {save: "60\nrequirepass x"}}`, value},
		{"a value with a tab is refused", `spec: {valkey: {save: "60\t1"}}`, value},
		{"a value with a NUL is refused", `spec: {valkey: {save: "60\u0000"}}`, value},
		{"a value with DEL is refused", `spec: {valkey: {save: "60\u007f"}}`, value},
		{"a value with a C1 control character is refused", `spec: {valkey: {save: "60\u0085"}}`, value},
		{"a value that YAML takes for a number is refused", `spec: {valkey: {hz: 10}}`, `spec.valkey.hz in body must be of type string`},
	})
}

func TestAValkeyConfigLoadsModulesFromTheImageOnly(t *testing.T) {
	const module = "loadmodule takes an absolute, plain path that is not under /var/lib/valkey"
	check(t, config, []row{
		{"loadmodule with an absolute path is accepted", `spec: {valkey: {loadmodule: /usr/lib/valkey/json.so}}`, ``},
		{"loadmodule with arguments is accepted", `spec: {valkey: {loadmodule: /usr/lib/valkey/json.so a //b /../c}}`, ``},
		{"loadmodule beside the data directory is accepted", `spec: {valkey: {loadmodule: /var/lib/valkey-modules/json.so}}`, ``},
		{"loadmodule with a relative path is refused", `spec: {valkey: {loadmodule: json.so}}`, module},
		{"loadmodule without a path is refused", `spec: {valkey: {loadmodule: ""}}`, module},
		{"loadmodule of the root is refused", `spec: {valkey: {loadmodule: "/ a"}}`, module},
		{"loadmodule under the data directory is refused", `spec: {valkey: {loadmodule: /var/lib/valkey/evil.so}}`, module},
		{"loadmodule of the data directory is refused", `spec: {valkey: {loadmodule: /var/lib/valkey}}`, module},
		{"loadmodule that climbs into the data directory is refused", `spec: {valkey: {loadmodule: /usr/../var/lib/valkey/evil.so}}`, module},
		{"loadmodule with a doubled slash is refused", `spec: {valkey: {loadmodule: /var//lib/valkey/evil.so}}`, module},
		{"loadmodule with a dot is refused", `spec: {valkey: {loadmodule: /var/./lib/valkey/evil.so}}`, module},
		{"loadmodule with a quote in its path is refused", `spec: {valkey: {loadmodule: '/var/"lib"/valkey/evil.so'}}`, module},
	})
}

func TestAValkeyConfigRefusesTheDirectivesOfTheOperator(t *testing.T) {
	const (
		credentials = "requirepass, masterauth, masteruser, primaryauth, user and aclfile are not allowed: users are bound with acl"
		process     = "include, rename-command, unixsocket, daemonize and logfile are not allowed: the operator owns how the process runs"
		topology    = "replicaof, slaveof, cluster-port and cluster-announce-* are not allowed: the operator owns the topology"
		tls         = "of the tls-* directives only tls-protocols, tls-ciphers, tls-ciphersuites, tls-prefer-server-ciphers and tls-session-* are allowed"
	)
	var rows []row
	for message, directives := range map[string][]string{
		credentials: {"requirepass", "masterauth", "masteruser", "primaryauth", "user", "aclfile"},
		process:     {"include", "rename-command", "unixsocket", "daemonize", "logfile"},
		topology:    {"replicaof", "slaveof", "cluster-port", "cluster-announce-ip", "cluster-announce-hostname", "cluster-announce-human-nodename"},
		tls:         {"tls-port", "tls-cluster", "tls-replication", "tls-cert-file", "tls-key-file", "tls-key-file-pass", "tls-ca-cert-file", "tls-ca-cert-dir", "tls-auth-clients", "tls-protocol"},
	} {
		for _, d := range directives {
			rows = append(rows, row{"directive " + d + " is refused", `spec: {valkey: {` + d + `: x}}`, message})
		}
	}
	for _, d := range []string{
		"tls-protocols", "tls-ciphers", "tls-ciphersuites", "tls-prefer-server-ciphers", "tls-session-caching", "tls-session-cache-size",
		"cluster-enabled", "cluster-node-timeout", "cluster-config-file", "dir", "port", "bind", "protected-mode", "primaryuser",
		"cluster-allow-replica-migration", "save", "repl-diskless-sync-delay", "shutdown-on-sigterm", "users", "unixsocketperm",
	} {
		rows = append(rows, row{"directive " + d + " is accepted", `spec: {valkey: {` + d + `: x}}`, ``})
	}
	check(t, config, rows)
}

func TestAValkeyRoleNamesCategoriesAndCommands(t *testing.T) {
	const name = "a name starts with a letter and has only letters, digits, '_' and '-'; the operator adds the '@' of a category"
	check(t, role, []row{
		{"the smallest role is accepted", ``, ``},
		{"an empty role is accepted", `spec: {categories: null}`, ``},
		{"a missing spec is refused", `spec: null`, `spec: Required value`},
		{"a role with every field is accepted", `spec: {categories: [{name: dangerous, access: deny}], commands: [{name: config, subcommand: get, access: allow}, {name: GET, access: deny}]}`, ``},
		{"64 categories are accepted", `spec: {categories: {{list 64 "{name: c%d, access: allow}"}}}`, ``},
		{"65 categories are refused", `spec: {categories: {{list 65 "{name: c%d, access: allow}"}}}`, `spec.categories: Too many: 65: must have at most 64 items`},
		{"256 commands are accepted", `spec: {commands: {{list 256 "{name: c%d, access: allow}"}}}`, ``},
		{"257 commands are refused", `spec: {commands: {{list 257 "{name: c%d, access: allow}"}}}`, `spec.commands: Too many: 257: must have at most 256 items`},
		{"a category of 64 characters is accepted", `spec: {categories: [{name: {{rep 64 "c"}}, access: allow}]}`, ``},
		{"a category of 65 characters is refused", `spec: {categories: [{name: {{rep 65 "c"}}, access: allow}]}`, `spec.categories[0].name: Too long: may not be more than 64 bytes`},
		{"a category with @ is refused", `spec: {categories: [{name: "@read", access: allow}]}`, name},
		{"an empty category is refused", `spec: {categories: [{name: "", access: allow}]}`, `spec.categories[0].name in body should be at least 1 chars long`},
		{"a category without a name is refused", `spec: {categories: [{access: allow}]}`, `spec.categories[0].name: Required value`},
		{"a category without access is refused", `spec: {categories: [{name: read}]}`, `spec.categories[0].access: Required value`},
		{"an unknown access is refused", `spec: {categories: [{name: read, access: Allow}]}`, `Unsupported value: "Allow": supported values: "allow", "deny"`},
		{"a command of 64 characters is accepted", `spec: {commands: [{name: {{rep 64 "c"}}, access: deny}]}`, ``},
		{"a command of 65 characters is refused", `spec: {commands: [{name: {{rep 65 "c"}}, access: deny}]}`, `spec.commands[0].name: Too long: may not be more than 64 bytes`},
		{"a command with + is refused", `spec: {commands: [{name: +get, access: allow}]}`, name},
		{"a command with | is refused", `spec: {commands: [{name: "config|get", access: allow}]}`, name},
		{"a command with a space is refused", `spec: {commands: [{name: "get +@all", access: allow}]}`, name},
		{"a command that starts with a digit is refused", `spec: {commands: [{name: 1get, access: allow}]}`, name},
		{"a command with a trailing line break is refused", `spec: {commands: [{name: "get\n", access: allow}]}`, name},
		{"a command without access is refused", `spec: {commands: [{name: get}]}`, `spec.commands[0].access: Required value`},
		{"a command with an unknown access is refused", `spec: {commands: [{name: get, access: ""}]}`, `Unsupported value: "": supported values: "allow", "deny"`},
		{"a subcommand with _ and - is accepted", `spec: {commands: [{name: client, subcommand: no-evict_2, access: allow}]}`, ``},
		{"a subcommand of 64 characters is accepted", `spec: {commands: [{name: client, subcommand: {{rep 64 "s"}}, access: allow}]}`, ``},
		{"a subcommand of 65 characters is refused", `spec: {commands: [{name: client, subcommand: {{rep 65 "s"}}, access: allow}]}`, `spec.commands[0].subcommand: Too long: may not be more than 64 bytes`},
		{"a subcommand with | is refused", `spec: {commands: [{name: client, subcommand: "a|b", access: allow}]}`, name},
	})
}

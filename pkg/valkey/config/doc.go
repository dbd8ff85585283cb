// Package config renders valkey.conf and decides when a node's configuration is
// out of date. It does no IO.
//
// # From a user's map to a file
//
// Freeze merges, once per node: the operator's defaults, then the user's map
// over them, then the forced settings over both (contract §3). The result is
// stored with the node and never changes; Render writes it down:
//
//	user and default directives, sorted     maxmemory 1500mb
//	forced directives, sorted               cluster-enabled yes
//	the replication password, by include    include /etc/valkey/auth/primaryauth.conf
//
// The password is not in this file: it is public to whoever may read ConfigMaps.
//
// # How a value is written
//
// A value in the map is the directive's value as CONFIG GET shows it: no quotes, no
// escapes. It is written as exactly one argument, so whatever bytes it holds
// arrive unchanged: spaces, quotes, #, backslashes, the empty string.
//
//	save: "3600 1 300 100"      save 3600 1 300 100
//	save: ""                    save ""
//	syslog-ident: my "cache" #1 syslog-ident "my \"cache\" #1"
//
// Directives that take several arguments (save, bind,
// client-output-buffer-limit, …) need no list of ours: Valkey itself splits the only
// argument of such a directive at its spaces, by the same rules as a line of
// the file (config.c, MULTI_ARG_CONFIG). Where one of the arguments needs quotes,
// they belong into the value. loadmodule is the one directive that Valkey does not
// split; Render does it, by Valkey's rules: a path, then the module's arguments.
// Quotes that do not balance there are taken for ordinary characters.
package config

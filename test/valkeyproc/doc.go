// Package valkeyproc runs real Valkey servers for tests: one address of
// 127.0.1.0/24 each, all on port 6379, with the configuration and the users
// that the operator would give a pod, under a folder of the test's own.
//
//	servers := valkeyproc.Start(t, 3, valkeyproc.Options{})
//	valkeyproc.Form(t, servers, 3)
//	servers[0].Kill(t)
//
// Servers end with their test, at the latest; if it failed, their logs are
// shown. An address belongs to one test until its end, in whichever process it
// runs: nothing of another test can answer there, or be introduced to this one's
// servers by gossip.
//
// The binaries come from the folder in VALKEY_BIN or, without it, from the test bed
// (test/bed/bed valkey 9). There is no skipping: without binaries a test fails.
package valkeyproc

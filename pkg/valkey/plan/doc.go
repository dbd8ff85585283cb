// Package plan decides what the operator does next for one Valkey cluster.
//
// It is a function without any IO: what was seen (Observation) and what is wanted
// (Target) go in, one Decision comes out. There is no clock, logger, context or
// randomness, and no Kubernetes import: a decision can be printed, replayed from text,
// simulated and refused by a second opinion (Allowed).
//
// # Words
//
//   - node: one Valkey process, its pod and its ValkeyNode.
//   - shard: a primary that owns hash slots, or is about to, and its replicas.
//   - answering: the server answered in this look. Only its own words count about itself.
//   - core: the answering servers that know each other and hold the slots.
//   - member: an answering node of the core.
//   - stranger: an answering node that the core does not know yet.
//   - ghost: an ID that members still list though no server of ours stands behind it.
//   - silent: a node whose pod runs and whose server did not answer. It may be alive.
//   - gone: the pod is absent by a live read, its phase is Failed or Succeeded, or its
//     deletion deadline passed more than 30 s ago. Only this is proof of death.
//   - failed: every answering primary flags it, and Kubernetes says that the pod is not Ready.
//   - unborn: a node that never ran and owns nothing.
//   - outdated: its revision is none of the target's.
//   - partial: the look misses a server that is neither gone nor answering.
//   - surplus: a node that no shard of the target needs.
//
// # Where to look
//
// ladder.go has the order of the rules, one line a rule. safety.go, promote.go, repair.go, form.go, meet.go,
// scale.go, roll.go and cleanup.go have the rules; picture.go joins all views for them; guard.go has
// the second opinion, which shares no code with the rules.
package plan

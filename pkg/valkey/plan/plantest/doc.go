// Package plantest has a model of Valkey and Kubernetes for the planner to be tried on,
// and what checks the planner there.
//
// The model is meaner than the real things: what may go wrong does, often, and it refuses
// what a real server refuses (what it knows of servers is that of Valkey 9.1). Time goes on in
// beats; a seed decides all that is left to chance, so each run can be had again.
//
//   - Model: servers with their own views (server.go, gossip.go, election.go, replication.go,
//     migration.go, command.go) and Kubernetes (kube.go, hosts.go).
//   - Event: what people and fate do to it (event.go).
//   - Operator: looks, plans, asks the guard, acts (operator.go, observe.go, act.go).
//   - Simulation: a Scenario run to its end with all invariants checked (simulation.go, invariants.go).
package plantest

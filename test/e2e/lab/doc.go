// Package lab puts ValkeyClusters on the test bed and watches them: what the
// end-to-end tests and the benchmarks share.
//
// It runs in the bed's hub (test/bed/bed exec hub), which reaches every pod and the API
// server, on a machine where it is root: faults are real signals to real processes.
//
//	s := lab.NewSite(t, lab.Options{})       // namespace, menu, an operator of its own
//	c := s.Create("cache", 3, 1)
//	c.WaitActive()
//	c.AssertShape(3, 1)
//
// Each Site runs the operator as a process of its own, as the ServiceAccount of
// manifests/operator.yaml and for its namespace only. So parallel tests do not disturb
// each other, an operator can be killed, doubled or cut off alone, and each test has its
// own log. The Deployment of manifests/operator.yaml has tests of its own (DeployedSite).
package lab

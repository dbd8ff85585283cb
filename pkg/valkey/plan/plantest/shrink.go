package plantest

import (
	"errors"
	"slices"
)

// Shrink drops the events without which a failing scenario still breaks the same invariant.
// It gives the scenario back as it is if it does not fail.
func Shrink(sc Scenario, planner Planner) Scenario {
	name := broken(sc, planner)
	if name == "" {
		return sc
	}
	for i := len(sc.Events) - 1; i >= 0; i-- {
		fewer := sc
		fewer.Events = slices.Delete(slices.Clone(sc.Events), i, i+1)
		if broken(fewer, planner) == name {
			sc = fewer
		}
	}
	return sc
}

// broken is the name of the invariant that a scenario breaks.
func broken(sc Scenario, planner Planner) string {
	var found *Violation
	if err := NewSimulation(sc, planner).Run(); errors.As(err, &found) {
		return found.Name
	}
	return ""
}

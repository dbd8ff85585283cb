package plantest

import (
	"fmt"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/valkey/plan"
)

// transcript is what happened, for people. A decision that is the same as before is left out.
type transcript struct {
	lines []string
	last  string
	world plan.World // of the newest decision
}

func (m *Model) note(format string, args ...any) {
	m.log.lines = append(m.log.lines, fmt.Sprintf("%8.2fs  ", m.now.Seconds())+fmt.Sprintf(format, args...))
}

func (m *Model) decided(obs plan.Observation, target plan.Target, d plan.Decision) {
	m.log.world = plan.World{Observation: obs, Target: target}
	line := string(d.Rule) + ": " + d.Action.String()
	if _, waits := d.Action.(plan.Wait); waits {
		line = string(d.Rule) + ": wait" // what it waits for changes all the time
	}
	if line == m.log.last {
		return
	}
	m.log.last = line
	m.log.lines = append(m.log.lines, fmt.Sprintf("%8.2fs  > %s: %s", m.now.Seconds(), d.Rule, d.Action))
}

// Transcript is the end of what happened, at most so many lines, and the last world.
func (m *Model) Transcript(lines int) string {
	all := m.log.lines
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n") + "\n\nthe last look:\n" + m.log.world.String()
}

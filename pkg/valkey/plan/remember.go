package plan

import (
	"slices"
	"strings"

	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

// Remember is what the status must keep for the next passes once the decision is carried
// out: how often a deed was tried whose effect is still awaited. What came to its end is dropped; of that,
// a look that finds nobody who remembers the cluster says nothing.
func Remember(obs Observation, target Target, d Decision) []Attempt {
	p := look(obs, target)
	moves := p.moves()
	var out []Attempt
	for _, a := range obs.Attempts {
		if p.blind() != nil || p.awaited(&a, moves) {
			out = append(out, a)
		}
	}
	for _, u := range p.ghosts {
		// Since when: a server that has departed loses its links at once, a foreign one does not.
		if u.node == nil && u.linked() && obs.attempts("ForeignNode", string(u.id)).Count == 0 {
			out = append(out, Attempt{Kind: "ForeignNode", Subject: string(u.id), Count: 1, Message: "seen first"})
		}
	}
	for _, subject := range subjects(d) {
		i := slices.IndexFunc(out, func(a Attempt) bool { return a.Kind == string(d.Rule) && a.Subject == subject })
		if i < 0 {
			out = append(out, Attempt{Kind: string(d.Rule), Subject: subject, Message: d.Why})
			i = len(out) - 1
		}
		out[i].Count++
		out[i].Ago = 0
	}
	return out
}

// subjects are for whom a decision's deed must be remembered.
func subjects(d Decision) []string {
	switch a := d.Action.(type) {
	case Failover:
		return []string{string(a.Primary)}
	case MoveSlots:
		var out []string
		for _, m := range a.Moves {
			out = append(out, m.pair())
		}
		return out
	case RemoveNodes:
		if d.Rule == "CrashedNode" {
			return []string{startSubject}
		}
	}
	return nil
}

// awaited says whether the trouble that an attempt was for is still there.
func (p *picture) awaited(a *Attempt, moves []Move) bool {
	switch a.Kind {
	case "PrimaryDown", "PrimaryEnding", "OutdatedNodes":
		u := p.byID[topology.NodeID(a.Subject)]
		return u != nil && u.shard != nil && u.shard.primary == u && !u.slots.Empty() &&
			(a.Kind != "PrimaryDown" || !u.answering())
	case "SlotsUneven":
		wanted := slices.ContainsFunc(moves, func(m Move) bool { return m.pair() == a.Subject })
		if !wanted && a.Ago >= movePause(a.Count) { // until then an edit may ask for the pair again
			return false
		}
		job, found := p.lastJob(a.Subject)
		if found && job.Message != "" {
			a.Message = job.Message
		}
		return !found || job.State != topology.Success
	case "ForeignNode":
		u := p.byID[topology.NodeID(a.Subject)]
		return u != nil && u.node == nil && u.linked()
	case "CrashedNode":
		return slices.ContainsFunc(p.units, func(u *unit) bool { return u.node != nil && !u.core })
	}
	return false
}

// lastJob is the newest migration of a pair, by its source's words.
func (p *picture) lastJob(pair string) (job topology.Migration, found bool) {
	from, to, _ := strings.Cut(pair, ">")
	u := p.byID[topology.NodeID(from)]
	if u == nil || !u.answering() {
		return job, false
	}
	for _, m := range u.server.Migrations {
		if m.Export && m.Target == topology.NodeID(to) && (!found || m.Created > job.Created) {
			job, found = m, true
		}
	}
	return job, found
}

package plantest

import "github.com/momentohq/valkey-operator/pkg/valkey/slot"

// meddle is what people do to servers behind the operator's back, and other clusters.
func (m *Model) meddle(e Event) {
	owners := m.victims(KillPrimary)
	switch e.Kind {
	case Flush:
		for _, s := range owners {
			s.data = [Keys]uint32{}
			s.offset += writeSize
			s.breakJobs("FLUSHALL")
		}
		m.floor = [Keys]uint32{}
	case HandMove:
		if len(owners) > 1 {
			from, to := owners[e.N%len(owners)], owners[(e.N+1)%len(owners)]
			if !from.moving() && m.connected(from, to) && from.peer(to.n) != nil && to.peer(from.n) != nil {
				m.startJob(from, to, from.me().slots.set.First(from.me().slots.n/2)).byHand = true
			}
		}
	case LoadLibrary:
		m.loadLibrary(owners)
	case Foreign, Merge:
		m.foreign(e, owners)
	}
}

// loadLibrary is for times when every slot is served and none moves: at others users would try
// again. A primary that was failed over and does not know yet serves nothing that its heir does not.
func (m *Model) loadLibrary(owners []*server) {
	var served slot.Set
	for _, s := range owners {
		if s.moving() {
			return
		}
		served = served.Union(s.me().slots.set)
	}
	if served != slot.All() {
		return
	}
	for _, s := range owners {
		s.libraries++
	}
}

// foreign starts a server of another cluster, which owns all slots there: at the address of one
// of ours that has died, or, where somebody has it met, at one of its own.
func (m *Model) foreign(e Event, owners []*server) {
	ip := "10.9.9.9"
	if e.Kind == Foreign {
		ip = ""
		for _, s := range m.servers {
			if !s.alive && m.at(s.ip) == nil {
				ip = s.ip
			}
		}
	}
	if ip == "" || len(owners) == 0 {
		return
	}
	f := m.startServer(ip, 0, "9.1.2")
	f.me().epoch, f.current = 1000, 1000
	f.setOwn(slot.All())
	if e.Kind == Merge {
		owners[e.N%len(owners)].meet(ip)
	}
}

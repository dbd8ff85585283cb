package valkey_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/pkg/valkey/client"
	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
	"github.com/momentohq/valkey-operator/test/valkeyproc"
)

func start(t *testing.T, n int, settings map[string]string) []*valkeyproc.Server {
	t.Helper()
	return valkeyproc.Start(t, n, valkeyproc.Options{Settings: settings, Override: map[string]string{"cluster-node-timeout": "1000"}})
}

func TestAFreshServerIsAloneAndOwnsNothing(t *testing.T) {
	s := start(t, 1, nil)[0]
	got := s.Look(t)
	me := got.View.Me()
	if len(got.View.Peers) != 1 || me.ID == "" || me.IP != s.IP || me.Port != 6379 || me.BusPort != 16379 || me.Role != topology.Primary || me.Slots != nil {
		t.Errorf("the view is %+v", got.View)
	}
	if got.StateOK || got.SlotsAssigned != 0 || got.Loading || got.Saving || got.Keys != 0 || got.UsedMemory == 0 ||
		got.LinkUp || got.Migrations != nil || !strings.HasPrefix(got.Version, "9.") {
		t.Errorf("it says %+v", got)
	}
}

func TestAnOldServerIsSeenWithItsVersion(t *testing.T) {
	bin, err := valkeyproc.OldBin()
	if err != nil {
		t.Fatal(err)
	}
	// It does not know this word of a later version, and says so before it ends.
	s := valkeyproc.Launch(t, valkeyproc.Options{Bin: bin})
	<-s.Ended()
	if log := s.Log(t); !strings.Contains(log, "shutdown-on-sigterm") {
		t.Errorf("the log is\n%s", log)
	}
	s = valkeyproc.Start(t, 1, valkeyproc.Options{
		Bin: bin, Override: map[string]string{"shutdown-on-sigterm": "default"},
		ACL: strings.ReplaceAll(adminACL(t), " +cluster|syncslots", ""),
	})[0]
	if got := s.Look(t); !strings.HasPrefix(got.Version, "8.") || got.Migrations != nil || got.View.Self == "" {
		t.Errorf("it says %+v", got)
	}
}

func TestAClusterIsSeenAlikeByPrimaryAndReplica(t *testing.T) {
	t.Parallel()
	servers := start(t, 4, nil)
	valkeyproc.Form(t, servers, 2)
	for i := range 20 {
		servers[i%2].CLI(t, "-c", "SET", fmt.Sprint("key", i), "value")
	}
	valkeyproc.Eventually(t, 10*time.Second, "offsets to be equal on both sides", func() bool {
		primary, replica := servers[0].Look(t), servers[2].Look(t)
		return len(primary.Followers) == 1 && primary.Followers[0].Online && primary.Followers[0].IP == servers[2].IP &&
			primary.Offset > 0 && replica.Offset == primary.Offset && replica.Keys == primary.Keys && primary.Keys > 0
	})
	primary, replica := servers[0].Look(t), servers[2].Look(t)
	if !replica.LinkUp || replica.Syncing || replica.LinkDownFor != 0 || replica.View.Me().PrimaryID != primary.View.Self {
		t.Errorf("the replica says %+v", replica)
	}
	for _, s := range servers {
		seen := s.Look(t)
		p, ok := seen.View.Find(primary.View.Self)
		if owned := slot.Of(p.Slots...); !ok || seen.SlotsOK != slot.Count || owned.Len() != 8192 || !seen.StateOK || seen.CurrentEpoch == 0 {
			t.Errorf("%s says %+v", s.IP, seen)
		}
	}
	servers[0].Kill(t)
	valkeyproc.Eventually(t, 5*time.Second, "the replica to see its link down", func() bool {
		seen := servers[2].Look(t)
		return !seen.LinkUp && seen.View.Me().Role == topology.Replica || seen.View.Me().Role == topology.Primary
	})
	valkeyproc.Eventually(t, 10*time.Second, "the others to call it failing or failed", func() bool {
		p, _ := servers[1].Look(t).View.Find(primary.View.Self)
		return p.Failing || p.Failed
	})
}

func TestAServerThatLoadsIsAliveAndShowsItsView(t *testing.T) {
	t.Parallel()
	// Each key takes the replica 5 ms, so that it loads for seconds.
	servers := start(t, 2, map[string]string{"key-load-delay": "5000", "loading-process-events-interval-bytes": "1024"})
	valkeyproc.Form(t, servers[:1], 1)
	// Longer values than the interval: the server answers while it loads.
	servers[0].CLI(t, "EVAL", "for i = 1, 600 do redis.call('SET', '{a}' .. i, string.rep('v', 2000)) end", "1", "{a}")
	servers[1].CLI(t, "CLUSTER", "MEET", servers[0].IP, "6379")
	valkeyproc.Eventually(t, 10*time.Second, "the second server to know the first", func() bool {
		return servers[1].Node(t).Replicate(t.Context(), servers[0].ID(t)) == nil
	})
	var loading topology.Server
	valkeyproc.Eventually(t, 10*time.Second, "the replica to load", func() bool {
		loading = servers[1].Look(t)
		return loading.Loading
	})
	if loading.View.Self == "" || loading.View.Me().Role != topology.Replica || loading.LinkUp {
		t.Errorf("while loading it says %+v", loading)
	}
	err := servers[1].Node(t).Forget(t.Context(), servers[0].ID(t))
	var refused *client.ServerError
	if !errors.As(err, &refused) || refused.Code() != "LOADING" {
		t.Errorf("a change while loading: %v", err)
	}
}

func TestAStoppedServerCostsItsTimeoutAndComesBack(t *testing.T) {
	servers := start(t, 3, nil)
	d := servers[0].Dialer(t)
	d.Timeout = 400 * time.Millisecond
	addrs := []string{servers[0].Addr(), servers[1].Addr(), servers[2].Addr()}
	for _, s := range d.LookAll(t.Context(), addrs) { // connections are in the pool now
		if s.Err != nil {
			t.Fatal(s.Err)
		}
	}
	servers[1].Pause(t)
	for range 2 { // on a kept connection, and on a new one
		begun := time.Now()
		sights := d.LookAll(t.Context(), addrs)
		if took := time.Since(begun); took > 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		var silent *client.UnreachableError
		if sights[0].Err != nil || sights[2].Err != nil || !errors.As(sights[1].Err, &silent) || !silent.Timeout() {
			t.Errorf("errors are %v, %v, %v", sights[0].Err, sights[1].Err, sights[2].Err)
		}
	}
	servers[1].Resume(t)
	if sights := d.LookAll(t.Context(), addrs); sights[1].Err != nil || sights[1].Server.View.Me().IP != servers[1].IP {
		t.Errorf("once resumed: %v, %+v", sights[1].Err, sights[1].Server)
	}
}

func TestAServerThatDiesInTheMiddleOfACallIsKnownAtOnce(t *testing.T) {
	s := start(t, 1, nil)[0]
	d, id := s.Dialer(t), s.ID(t)
	s.Pause(t) // so that the call is surely under way
	result := make(chan error, 1)
	go func() { result <- d.Node(s.Addr(), id).LoadACL(t.Context()) }()
	valkeyproc.Eventually(t, 5*time.Second, "the frozen server to have something unread", func() bool { return hasUnread(t, s) })
	begun := time.Now()
	s.Kill(t)
	err := <-result
	var gone *client.UnreachableError
	if took := time.Since(begun); !errors.As(err, &gone) || gone.Timeout() || took > time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if _, err := d.Look(t.Context(), s.Addr()); !errors.As(err, &gone) || gone.Timeout() {
		t.Errorf("a look at a dead server: %v", err)
	}
}

func TestTheNextServerAtAnAddressGetsNothingMeantForTheLast(t *testing.T) {
	s := start(t, 1, nil)[0]
	node, id := s.Node(t), s.ID(t)
	if err := node.AddSlots(t.Context(), slot.Of(slot.Range{First: 1, Last: 2})); err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	next := s.Successor(t, valkeyproc.Options{})
	err := node.AddSlots(t.Context(), slot.Of(slot.Range{First: 3, Last: 4}))
	var other *client.IdentityError
	if !errors.As(err, &other) || other.Want != id || other.Got != next.ID(t) {
		t.Errorf("error is %v", err)
	}
	if got := next.Look(t).SlotsAssigned; got != 0 {
		t.Errorf("the new server owns %d slots", got)
	}
}

// hasUnread says whether bytes wait for the server in one of its connections: proc(5) lists
// them by local address in hexadecimal, the state 01 (established) and tx:rx queues.
func hasUnread(t *testing.T, s *valkeyproc.Server) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	ip := net.ParseIP(s.IP).To4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], valkeyproc.Port)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 4 && f[1] == local && f[3] == "01" && !strings.HasSuffix(f[4], ":00000000") {
			return true
		}
	}
	return false
}

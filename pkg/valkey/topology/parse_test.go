package topology

import (
	_ "embed"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// Recorded from Valkey 9.1.2, but for the lines of IPv6, noaddr and auxiliary fields.
const recordedNodes = `c4ed2505b67a511aaaf753eb74e9337883a2faee 127.0.9.77:6379@16379 handshake - 0 0 0 disconnected
1f8529c6ccad1ed9736887a41004258ceede6fb8 127.0.9.2:6379@16379,n2.c.ns.svc.cluster.local master - 0 1796052674520 2 connected 8192-9019 9021-16383
24a5c4a5057ab04a9b8539544272c01d44025d4a 127.0.9.1:6379@16379,n1.c.ns.svc.cluster.local master,fail? - 1796052677335 1796052674419 18446744073709551615 disconnected 0-8191
cd1c580577c46d4614e828ebf6b9dd2d1bebe5e4 127.0.9.3:6379@16379 myself,slave 24a5c4a5057ab04a9b8539544272c01d44025d4a 0 0 1 connected
0000000000000000000000000000000000000006 fd00::1:2:6379@16379, slave,fail,nofailover 1f8529c6ccad1ed9736887a41004258ceede6fb8 0 0 2 disconnected
0000000000000000000000000000000000000007 :0@0 master,fail,noaddr - 0 0 0 disconnected
0000000000000000000000000000000000000008 10.0.0.8:6379@16379,,tls-port=6379,shard-id=1 master - 0 0 3 connected 9020 [77->-1f85] [78-<-24a5]
0000000000000000000000000000000000000009 10.0.0.9:6379@16379,shard-id=1 noflags - 0 0 0 disconnected
000000000000000000000000000000000000000a 10.0.0.10:6379 master - 0 0 0 connected
`

func TestEveryLineThatServersWriteIsRead(t *testing.T) {
	got, err := ParseNodes(recordedNodes)
	if err != nil {
		t.Fatal(err)
	}
	want := View{Self: "cd1c580577c46d4614e828ebf6b9dd2d1bebe5e4", Peers: []Peer{
		{ID: "c4ed2505b67a511aaaf753eb74e9337883a2faee", IP: "127.0.9.77", Port: 6379, BusPort: 16379, Handshake: true},
		{
			ID: "1f8529c6ccad1ed9736887a41004258ceede6fb8", IP: "127.0.9.2", Port: 6379, BusPort: 16379,
			Hostname: "n2.c.ns.svc.cluster.local", Role: Primary, Epoch: 2, Linked: true,
			Slots: []slot.Range{{First: 8192, Last: 9019}, {First: 9021, Last: 16383}},
		},
		{
			ID: "24a5c4a5057ab04a9b8539544272c01d44025d4a", IP: "127.0.9.1", Port: 6379, BusPort: 16379,
			Hostname: "n1.c.ns.svc.cluster.local", Role: Primary, Epoch: 1<<64 - 1, Failing: true,
			Slots: []slot.Range{{First: 0, Last: 8191}},
		},
		{
			ID: "cd1c580577c46d4614e828ebf6b9dd2d1bebe5e4", IP: "127.0.9.3", Port: 6379, BusPort: 16379, Role: Replica,
			PrimaryID: "24a5c4a5057ab04a9b8539544272c01d44025d4a", Epoch: 1, Linked: true,
		},
		{
			ID: "0000000000000000000000000000000000000006", IP: "fd00::1:2", Port: 6379, BusPort: 16379, Role: Replica,
			PrimaryID: "1f8529c6ccad1ed9736887a41004258ceede6fb8", Failed: true, Epoch: 2,
		},
		{ID: "0000000000000000000000000000000000000007", Role: Primary, Failed: true, NoAddr: true},
		{
			ID: "0000000000000000000000000000000000000008", IP: "10.0.0.8", Port: 6379, BusPort: 16379, Role: Primary, Epoch: 3, Linked: true,
			Slots: []slot.Range{{First: 9020, Last: 9020}},
		},
		{ID: "0000000000000000000000000000000000000009", IP: "10.0.0.9", Port: 6379, BusPort: 16379},
		{ID: "000000000000000000000000000000000000000a", IP: "10.0.0.10", Port: 6379, Role: Primary, Linked: true},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAViewWithALineThatCannotBeReadIsNoView(t *testing.T) {
	const good = "a 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-5\n"
	for _, bad := range []string{
		"", "\r\n", "OK", "a 10.0.0.1:1@2 master - 0 0 1 connected",
		good + "b 10.0.0.2:1@2 master - 0 0 1",
		good + "b 10.0.0.2:1@2 master - 0 0 x connected",
		good + "b 10.0.0.2:1@2 master - 0 0 1 connected 5-4",
		good + "b 10.0.0.2:1@2 master - 0 0 1 connected 16384",
		good + "b 10.0.0.2:1@2 master - 0 0 1 connected what",
	} {
		if v, err := ParseNodes(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, v)
		}
	}
	if _, err := ParseNodes(good); err != nil {
		t.Error(err)
	}
}

//go:embed testdata/info-replica.txt
var recordedInfo string

func TestAReplicasInfoIsRead(t *testing.T) {
	s := parse(t, recordedInfo)
	want := Server{View: s.View, Version: "9.1.2", LinkUp: true, Offset: 276, UsedMemory: s.UsedMemory}
	if s.UsedMemory <= 1<<20 {
		t.Errorf("used memory is %d", s.UsedMemory)
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func parse(t *testing.T, info string) Server {
	t.Helper()
	s, err := ParseServer(Replies{Nodes: "a 10.0.0.1:1@2 myself,master - 0 0 1 connected\n", Info: info})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEachFactOfInfoIsReadFromItsOwnField(t *testing.T) {
	follower := func(f Follower) []Follower { return []Follower{f} }
	for info, want := range map[string]Server{
		"":                      {},
		"redis_version:7.2.4\n": {Version: "7.2.4"},
		"redis_version:7.2.4\r\nvalkey_version:9.1.2\r\n":                                       {Version: "9.1.2"},
		"valkey_version:9.1.2\r\nredis_version:7.2.4\r\n":                                       {Version: "9.1.2"},
		"role:master\nmaster_repl_offset:7\n":                                                   {Offset: 7},
		"role:slave\nslave_repl_offset:5\nmaster_repl_offset:7\nmaster_link_status:up\n":        {Offset: 5, LinkUp: true},
		"role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:12\n":              {LinkDownFor: 12 * time.Second},
		"role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:-1\n":              {LinkDownFor: -1},
		"role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:0\n":               {},
		"role:slave\nmaster_link_status:down\nmaster_sync_in_progress:1\n":                      {LinkDownFor: -1, Syncing: true},
		"loading:1\nasync_loading:0\n":                                                          {Loading: true},
		"loading:0\nasync_loading:1\n":                                                          {Loading: true},
		"rdb_bgsave_in_progress:1\naof_rewrite_in_progress:0\n":                                 {Saving: true},
		"aof_rewrite_in_progress:1\nmodule_fork_in_progress:0\n":                                {Saving: true},
		"module_fork_in_progress:1\n":                                                           {Saving: true},
		"slot_migration_fork_in_progress:1\n":                                                   {Saving: true},
		"used_memory:12\nnumber_of_libraries:3\n":                                               {UsedMemory: 12, Libraries: 3},
		"db0:keys=2,expires=0,avg_ttl=0\ndb9:keys=40,expires=1\n":                               {Keys: 42},
		"tls_server_cert_serial:0AF3\ntls_ca_cert_serial:none\ntls_client_cert_serial:77\n":     {TLSSerial: "0AF3"},
		"tls_ca_cert_serial:01\n":                                                               {TLSCASerial: "01"},
		"slave0:ip=fd00::7,port=6379,state=online,offset=1234,lag=1,type=replica\n":             {Followers: follower(Follower{IP: "fd00::7", Port: 6379, Online: true, Offset: 1234, Lag: time.Second})},
		"slave0:ip=10.0.0.7,port=6379,state=wait_bgsave,offset=0,lag=0\n":                       {Followers: follower(Follower{IP: "10.0.0.7", Port: 6379})},
		"slave0:ip=10.0.0.7,port=6379,state=send_bulk,offset=0,lag=0,type=rdb-channel\n":        {},
		"slave_expires_tracked_keys:0\nslave_priority:100\ndb_size:keys\nused_memory:many\n:\n": {},
	} {
		got := parse(t, info)
		got.View = View{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", info, diff)
		}
	}
}

func TestClusterInfoIsRead(t *testing.T) {
	s, err := ParseServer(Replies{
		Nodes:       "a 10.0.0.1:1@2 myself,master - 0 0 1 connected\n",
		ClusterInfo: "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:10923\r\ncluster_current_epoch:7\r\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.View = View{}
	if diff := cmp.Diff(Server{StateOK: true, SlotsAssigned: 16384, SlotsOK: 10923, CurrentEpoch: 7}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSlotMigrationsAreReadNewestFirst(t *testing.T) {
	job := func(state string) []any {
		return []any{
			[]byte("name"), []byte("899a"), "operation", "EXPORT", "slot_ranges", []byte("0-10 20-20"), "target_node", "b",
			"source_node", "a", "create_time", int64(1796052096), "last_update_time", int64(1796052097), "state", state,
			"message", []byte("why not"), "cow_size", int64(0), "what", nil, "nested", []any{},
		}
	}
	want := Migration{
		Name: "899a", Export: true, Source: "a", Target: "b", Slots: []slot.Range{{First: 0, Last: 10}, {First: 20, Last: 20}},
		Created: 1796052096, Updated: 1796052097, Message: "why not",
	}
	for state, means := range map[string]MigrationState{
		"success": Success, "failed": Failed, "cancelled": Cancelled, "canceled": Cancelled,
		"snapshotting": Running, "invented-later": Running, "": Running,
	} {
		want.State = means
		got, err := ParseMigrations([]any{job(state), []any{"operation", "IMPORT"}})
		if diff := cmp.Diff([]Migration{want, {State: Running}}, got); diff != "" || err != nil {
			t.Errorf("state %q: %v (-want +got):\n%s", state, err, diff)
		}
	}
}

func TestMigrationsThatCannotBeReadAreAnError(t *testing.T) {
	for _, reply := range []any{"OK", []any{"x"}, []any{[]any{"name"}}, []any{[]any{"slot_ranges", "1-x"}}} {
		if got, err := ParseMigrations(reply); err == nil {
			t.Errorf("%v was read as %+v", reply, got)
		}
	}
	for _, reply := range []any{nil, []any{}} {
		if got, err := ParseMigrations(reply); err != nil || got != nil {
			t.Errorf("%v was read as %+v, %v", reply, got, err)
		}
	}
}

func FuzzNodesAreReadWholeOrNotAtAll(f *testing.F) {
	f.Add(recordedNodes)
	f.Add("a :0@0 myself - 0 0 0 - [1->-b] 5")
	f.Add("a [::1]:1@2,h,k=v myself,master - 0 0 1 connected 0-16383")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ParseNodes(text)
		if err != nil {
			return
		}
		filled := 0
		for line := range strings.Lines(text) {
			if len(strings.Fields(line)) > 0 {
				filled++
			}
		}
		if v.Self == "" || len(v.Peers) != filled {
			t.Errorf("%d lines gave %+v", filled, v)
		}
		for _, p := range v.Peers {
			for _, r := range p.Slots {
				if r.First < 0 || r.Last < r.First || r.Last >= slot.Count {
					t.Errorf("range %v", r)
				}
			}
		}
	})
}

func FuzzInfoNeverPanics(f *testing.F) {
	f.Add(recordedInfo)
	f.Add("slave0:ip=,port=x,lag=-9223372036854775808\ndb:keys=9\nmaster_link_down_since_seconds:9223372036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseServer(Replies{Nodes: "a b myself - 0 0 0 x", Info: text, ClusterInfo: text})
		if err != nil {
			t.Fatal(err)
		}
		if s.LinkDownFor < -1 {
			t.Errorf("link down for %v", s.LinkDownFor)
		}
	})
}

func FuzzMigrationsNeverPanic(f *testing.F) {
	f.Add(`[["name","a","slot_ranges","1-2 3","state","x"],["a",[]]]`)
	f.Add(`[[null,1],{"a":1}]`)
	f.Fuzz(func(t *testing.T, text string) {
		var reply any
		if json.Unmarshal([]byte(text), &reply) != nil {
			return
		}
		got, err := ParseMigrations(reply)
		if jobs, _ := reply.([]any); err == nil && len(got) != len(jobs) {
			t.Errorf("%d jobs gave %+v", len(jobs), got)
		}
	})
}

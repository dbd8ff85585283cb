package client

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
	"github.com/momentohq/valkey-operator/pkg/valkey/topology"
)

func TestALookIsOneRoundTripOnAKeptConnection(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	want := topology.Server{
		View: topology.View{Self: "abc", Peers: []topology.Peer{{
			ID: "abc", IP: "127.0.0.1", Port: 6379, BusPort: 16379, Role: topology.Primary, Epoch: 1, Linked: true,
			Slots: []slot.Range{{First: 0, Last: 5}},
		}}},
		Version: "9.1.2", StateOK: true,
		Migrations: []topology.Migration{{Name: "j1", Created: 7, State: topology.Running}},
	}
	for range 3 {
		got, err := d.Look(t.Context(), f.addr)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n, auth := f.dialled(), f.got("AUTH _momento_operator secret"); n != 1 || auth != 1 {
		t.Errorf("%d dials and %d logins for three looks", n, auth)
	}
}

func TestAConnectionThatDiedInThePoolCostsADialAndNoError(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	for range 3 {
		if _, err := d.Look(t.Context(), f.addr); err != nil {
			t.Fatal(err)
		}
		if err := d.Node(f.addr, "abc").Forget(t.Context(), "def"); err != nil {
			t.Fatal(err)
		}
		f.hangUpAll()
	}
	if n := f.dialled(); n != 3 {
		t.Errorf("%d dials, want 3", n)
	}
}

func TestARefusedLoginIsAnErrorAndNothingElseIsSent(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	f.set("AUTH", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	_, lookErr := d.Look(t.Context(), f.addr)
	for _, err := range []error{lookErr, d.Node(f.addr, "abc").LoadACL(t.Context())} {
		var refused *ServerError
		if !errors.As(err, &refused) || refused.Code() != "WRONGPASS" {
			t.Errorf("error is %v", err)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	if n := f.got("CLUSTER") + f.got("INFO") + f.got("ACL"); n != 0 {
		t.Errorf("%d commands were sent as the default user", n)
	}
}

func TestNothingIsSentToAnotherServer(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	for _, meant := range []topology.NodeID{"def", ""} {
		err := d.Node(f.addr, meant).Failover(t.Context(), Takeover)
		var other *IdentityError
		if !errors.As(err, &other) || other.Got != "abc" || other.Want != meant {
			t.Errorf("error is %v", err)
		}
	}
	// Also when the address changed hands behind a connection that was fine a moment ago.
	if err := d.Node(f.addr, "abc").Failover(t.Context(), Force); err != nil {
		t.Fatal(err)
	}
	f.hangUpAll()
	f.set("CLUSTER MYID", bulk("new"))
	var other *IdentityError
	if err := d.Node(f.addr, "abc").Failover(t.Context(), Takeover); !errors.As(err, &other) || other.Got != "new" {
		t.Errorf("error is %v", err)
	}
	if n := f.got("CLUSTER FAILOVER TAKEOVER"); n != 0 {
		t.Errorf("%d takeovers were sent", n)
	}
}

func TestAChangeIsNeverSentTwice(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	if err := d.Node(f.addr, "abc").Failover(t.Context(), Coordinated); err != nil {
		t.Fatal(err)
	}
	f.set("CLUSTER FAILOVER", hangUp)
	err := d.Node(f.addr, "abc").Failover(t.Context(), Coordinated)
	var gone *UnreachableError
	if !errors.As(err, &gone) || gone.Timeout() {
		t.Errorf("error is %v", err)
	}
	if n := f.got("CLUSTER FAILOVER"); n != 2 {
		t.Errorf("two calls sent %d failovers", n)
	}
}

func TestWhatTheServerAnswersIsToldWordForWord(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	f.set("CLUSTER REPLICATE def", "-ERR Unknown node def\r\n")
	err := d.Node(f.addr, "abc").Replicate(t.Context(), "def")
	var refused *ServerError
	if !errors.As(err, &refused) || refused.Text != "ERR Unknown node def" || refused.Code() != "ERR" {
		t.Errorf("error is %v", err)
	}
	if want := "CLUSTER REPLICATE: server answered ERR Unknown node def"; fmt.Sprint(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
	if err := d.Node(f.addr, "abc").Forget(t.Context(), "def"); err != nil {
		t.Error(err)
	}
	if n := f.dialled(); n != 1 {
		t.Errorf("an answered error cost the connection: %d dials", n)
	}
}

func TestALookToleratesServersWithoutSlotMigrations(t *testing.T) {
	for _, answer := range []string{
		"-ERR unknown subcommand 'GETSLOTMIGRATIONS'. Try CLUSTER HELP.\r\n",
		"-LOADING Valkey is loading the dataset in memory\r\n",
	} {
		f, d := newFake(t, healthy("abc")), dialer(t)
		f.set("CLUSTER GETSLOTMIGRATIONS", answer)
		if s, err := d.Look(t.Context(), f.addr); err != nil || s.Migrations != nil {
			t.Errorf("%q: %+v, %v", answer, s, err)
		}
	}
}

func TestALookWithoutRightsOrViewIsAnError(t *testing.T) {
	for command, answer := range map[string]string{
		"CLUSTER NODES":             "-ERR This instance has cluster support disabled\r\n",
		"CLUSTER INFO":              "-NOPERM no\r\n",
		"INFO":                      "-NOPERM no\r\n",
		"CLUSTER GETSLOTMIGRATIONS": "-NOPERM no\r\n",
	} {
		f, d := newFake(t, healthy("abc")), dialer(t)
		f.set(command, answer)
		_, err := d.Look(t.Context(), f.addr)
		var refused *ServerError
		if !errors.As(err, &refused) || "-"+refused.Text+"\r\n" != answer {
			t.Errorf("%s: error is %v", command, err)
		}
	}
	f, d := newFake(t, healthy("abc")), dialer(t)
	f.set("CLUSTER NODES", "*0\r\n")
	if s, err := d.Look(t.Context(), f.addr); err == nil {
		t.Errorf("an empty list is the view %+v", s)
	}
}

func TestEveryCallEndsWithinItsTimeout(t *testing.T) {
	silentFrom := func(command string) map[string]string {
		answers := healthy("abc")
		answers[command] = ""
		return answers
	}
	blackHole := blackHole(t)
	for name, server := range map[string]map[string]string{
		"silent at login":         silentFrom("AUTH"),
		"silent at the first":     silentFrom("CLUSTER NODES"),
		"silent in the middle":    silentFrom("INFO"),
		"half an answer":          {"CLUSTER NODES": "$100\r\nabc"},
		"half a list":             {"CLUSTER NODES": bulk("x"), "CLUSTER INFO": bulk("x"), "INFO": bulk("x"), "CLUSTER GETSLOTMIGRATIONS": "*2\r\n"},
		"never accepts":           nil,
		"silent to who are you":   silentFrom("CLUSTER MYID"),
		"silent to the change":    silentFrom("CLUSTER FORGET def"),
		"not the protocol at all": {"CLUSTER NODES": "HTTP/1.1 400 Bad Request\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			addr := blackHole
			if server != nil {
				addr = newFake(t, server).addr
			}
			d := dialer(t)
			begun := time.Now()
			_, err := d.Look(t.Context(), addr)
			if err == nil {
				err = d.Node(addr, "abc").Forget(t.Context(), "def")
			}
			var silent *UnreachableError
			if !errors.As(err, &silent) || !silent.Timeout() && server != nil && name != "not the protocol at all" {
				t.Errorf("error is %v", err)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// blackHole is an address that takes connections and nothing else: its queue is
// full, so that the next one waits for ever.
func blackHole(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestTheSilentDoNotStallTheOthers(t *testing.T) {
	d := dialer(t)
	hole := blackHole(t)
	var addrs []string
	for i := range 40 {
		if i%4 == 0 {
			addrs = append(addrs, hole)
		} else {
			addrs = append(addrs, newFake(t, healthy(fmt.Sprint("n", i))).addr)
		}
	}
	begun := time.Now()
	sights := d.LookAll(t.Context(), addrs)
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
	for i, s := range sights {
		switch {
		case i%4 == 0 && s.Err == nil:
			t.Errorf("the black hole answered %+v", s.Server)
		case i%4 != 0 && (s.Err != nil || s.Server.View.Self != topology.NodeID(fmt.Sprint("n", i))):
			t.Errorf("server %d: %v, %+v", i, s.Err, s.Server.View)
		}
	}
}

func TestASilentAnswerIsNeverTakenForTheNextOne(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	if _, err := d.Look(t.Context(), f.addr); err != nil {
		t.Fatal(err)
	}
	f.set("INFO", "")
	if _, err := d.Look(t.Context(), f.addr); err == nil {
		t.Fatal("silence was an answer")
	}
	f.set("INFO", bulk("valkey_version:9.9.9\r\n"))
	s, err := d.Look(t.Context(), f.addr)
	if err != nil || s.Version != "9.9.9" {
		t.Errorf("after a timeout: %+v, %v", s, err)
	}
	if n := f.dialled(); n != 2 {
		t.Errorf("%d dials, want 2", n)
	}
}

func TestConnectionsOfOtherCredentialsAreNotMixed(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	other := d
	other.Password = "another"
	for _, one := range []Dialer{d, other, d, other} {
		if _, err := one.Look(t.Context(), f.addr); err != nil {
			t.Fatal(err)
		}
	}
	if n, m := f.got("AUTH _momento_operator secret"), f.got("AUTH _momento_operator another"); n != 1 || m != 1 {
		t.Errorf("%d and %d logins", n, m)
	}
}

func TestADialerIsSafeForManyAtOnce(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	d.Timeout = 5 * time.Second
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 10 {
				if _, err := d.Look(t.Context(), f.addr); err != nil {
					t.Error(err)
				}
				if err := d.Node(f.addr, "abc").Meet(t.Context(), "10.0.0.1", 1, 2); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := len(d.Pool.idle); n != 1 {
		t.Errorf("%d idle connections are kept for one address", n)
	}
}

func TestWhatIsIdleTooLongIsClosed(t *testing.T) {
	f, g, d := newFake(t, healthy("abc")), newFake(t, healthy("def")), dialer(t)
	if _, err := d.Look(t.Context(), f.addr); err != nil {
		t.Fatal(err)
	}
	d.Pool.idle[d.key(f.addr)].idle = time.Now().Add(-2 * idleFor)
	if _, err := d.Look(t.Context(), g.addr); err != nil {
		t.Fatal(err)
	}
	if len(d.Pool.idle) != 1 || d.Pool.idle[d.key(g.addr)] == nil {
		t.Errorf("kept: %v", d.Pool.idle)
	}
}

func TestADialerWithoutPoolDialsEachTime(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	d.Pool = nil
	for range 2 {
		if _, err := d.Look(t.Context(), f.addr); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.dialled(); n != 2 {
		t.Errorf("%d dials", n)
	}
}

func TestCommandsAreSentInTheServersWords(t *testing.T) {
	f, d := newFake(t, healthy("abc")), dialer(t)
	for _, other := range []string{"ACL", "CONFIG", "FUNCTION"} {
		f.set(other, "+OK\r\n")
	}
	f.set("FUNCTION DUMP", bulk("\x00dump\r\n"))
	f.set("ACL GETUSER _momento_rev", "*4\r\n"+bulk("flags")+"*1\r\n"+bulk("off")+bulk("passwords")+"*1\r\n"+bulk("beef"))
	n, ctx := d.Node(f.addr, "abc"), t.Context()
	dump, err := n.DumpFunctions(ctx)
	if err != nil || string(dump) != "\x00dump\r\n" {
		t.Errorf("dump is %q, %v", dump, err)
	}
	if revision, err := n.ACLRevision(ctx); err != nil || revision != "beef" {
		t.Errorf("revision is %q, %v", revision, err)
	}
	f.set("ACL GETUSER _momento_rev", "*-1\r\n")
	if revision, err := n.ACLRevision(ctx); err != nil || revision != "" {
		t.Errorf("revision of none is %q, %v", revision, err)
	}
	slots := slot.Of(slot.Range{First: 0, Last: 5}, slot.Range{First: 7, Last: 7})
	for want, err := range map[string]error{
		"CLUSTER SET-CONFIG-EPOCH 18446744073709551615":    n.SetConfigEpoch(ctx, 1<<64-1),
		"CLUSTER MEET fd00::1 6379 16379":                  n.Meet(ctx, "fd00::1", 6379, 16379),
		"CLUSTER ADDSLOTSRANGE 0 5 7 7":                    n.AddSlots(ctx, slots),
		"CLUSTER REPLICATE def":                            n.Replicate(ctx, "def"),
		"CLUSTER FORGET def":                               n.Forget(ctx, "def"),
		"CLUSTER FAILOVER":                                 n.Failover(ctx, Coordinated),
		"CLUSTER FAILOVER FORCE":                           n.Failover(ctx, Force),
		"CLUSTER FAILOVER TAKEOVER":                        n.Failover(ctx, Takeover),
		"CLUSTER MIGRATESLOTS SLOTSRANGE 0 5 7 7 NODE def": n.MigrateSlots(ctx, slots, "def"),
		"CLUSTER CANCELSLOTMIGRATIONS":                     n.CancelMigrations(ctx),
		"ACL LOAD":                                         n.LoadACL(ctx),
		"CONFIG SET a 1 b 2 2":                             n.SetConfig(ctx, map[string]string{"b": "2 2", "a": "1"}),
		"FUNCTION RESTORE \x00dump\r\n REPLACE":            n.RestoreFunctions(ctx, dump),
	} {
		if err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if f.got(want) == 0 {
			t.Errorf("%q was not sent: %q", want, f.seen)
		}
	}
	if err := n.RestoreFunctions(ctx, nil); err == nil {
		t.Error("an empty dump was restored")
	}
}

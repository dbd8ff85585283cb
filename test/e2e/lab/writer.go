package lab

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/momentohq/valkey-operator/pkg/valkey/slot"
)

// streams is how many independent series of writes a Writer makes, spread evenly over all slots: at 16 or fewer
// shards every shard has one.
const streams = 32

// Writer is a client that writes all the time through a cluster client, from the outside. Each key is
// written once; an acknowledged one must be there afterwards, byte for byte.
type Writer struct {
	cluster *Cluster
	pause   time.Duration
	size    int
	cancel  context.CancelFunc
	done    sync.WaitGroup
	series  [streams]*series
}

// A setter writes one key and returns once the write is acknowledged.
type setter func(ctx context.Context, key, value string) error

type series struct {
	slot    int
	tag     string // hash tag whose slot is slot
	mu      sync.Mutex
	acked   []ack
	started time.Time
	failed  int
	lastErr error
	errorAt time.Time
}

type ack struct {
	n  int
	at time.Time
}

// Gap is the longest time without an acknowledged write in one part of the slots.
type Gap struct {
	Slot       int
	From       time.Time
	Length     time.Duration
	LastFailed error
}

// Addresses lists host:port of every running pod of the cluster.
func (c *Cluster) Addresses() []string {
	c.T.Helper()
	out, err := c.addresses()
	if err != nil {
		c.T.Fatalf("list the pods of %s: %v", c.Name, err)
	}
	return out
}

func (c *Cluster) addresses() ([]string, error) {
	pods, err := c.Pods()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, p := range pods {
		if p.Status.PodIP != "" && p.DeletionTimestamp == nil {
			out = append(out, p.Status.PodIP+":6379")
		}
	}
	return out, nil
}

// Client is a cluster client of the pods that run now, as the cluster's User.
func (c *Cluster) Client() valkey.Client {
	c.T.Helper()
	config, err := c.tlsConfig()
	if err != nil {
		c.T.Fatalf("connect a cluster client to %s: %v", c.Name, err)
	}
	return connect(c.T, valkey.ClientOption{
		TLSConfig: config, Username: c.User.Name, Password: c.User.Password, InitAddress: c.Addresses(),
		ConnWriteTimeout: time.Second, // also how soon a dead connection is noticed
	})
}

// ClientOf is a cluster client of servers without users and TLS.
func ClientOf(t testing.TB, addresses []string) valkey.Client {
	t.Helper()
	return connect(t, valkey.ClientOption{InitAddress: addresses, ConnWriteTimeout: 10 * time.Second})
}

func connect(t testing.TB, option valkey.ClientOption) valkey.Client {
	t.Helper()
	option.DisableCache, option.ShuffleInit = true, true
	option.Dialer = netDialer
	option.ClusterOption = valkey.ClusterOption{ShardsRefreshInterval: time.Second}
	client, err := valkey.NewClient(option)
	if err != nil {
		t.Fatalf("connect a cluster client to %v: %v", option.InitAddress, err)
	}
	t.Cleanup(client.Close)
	return client
}

// Fill writes megabytes of data, spread over all slots, in values of 8 KiB.
func Fill(t testing.TB, client valkey.Client, megabytes int) {
	t.Helper()
	value := strings.Repeat("0123456789abcdef", 512)
	const batch = 128 // one mebibyte
	for m := range megabytes {
		commands := make(valkey.Commands, 0, batch)
		for i := range batch {
			commands = append(commands, client.B().Set().Key(fmt.Sprintf("fill:%d:%d", m, i)).Value(value).Build())
		}
		for _, result := range client.DoMulti(context.Background(), commands...) {
			if err := result.Error(); err != nil {
				t.Fatalf("fill: %v", err)
			}
		}
	}
}

// Write starts a Writer with a cluster client as users have it: in each of 32 parts of the slots a write every
// pause, of size bytes.
func (c *Cluster) Write(pause time.Duration, size int) *Writer {
	c.T.Helper()
	client := c.Client()
	return c.writeBy(pause, size, func() setter {
		return func(ctx context.Context, key, value string) error {
			return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
		}
	})
}

// Follow is Write with the quickest client that there can be; see follower.
func (c *Cluster) Follow(pause time.Duration, size int) *Writer {
	c.T.Helper()
	config, err := c.tlsConfig()
	if err != nil {
		c.T.Fatalf("connect to %s: %v", c.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.T.Cleanup(cancel)
	all := &pods{cluster: c}
	addrs := c.Addresses()
	all.addrs.Store(&addrs)
	go all.refresh(ctx)
	return c.writeBy(pause, size, func() setter {
		f := newFollower(all, config)
		c.T.Cleanup(f.close) // after the Writer's end
		return f.set
	})
}

func (c *Cluster) writeBy(pause time.Duration, size int, newSetter func() setter) *Writer {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{cluster: c, pause: pause, size: size, cancel: cancel}
	tags := tagsOfSlots()
	for i := range w.series {
		n := (2*i + 1) * slot.Count / (2 * streams)
		s := &series{slot: n, tag: tags[n], started: time.Now()}
		w.series[i] = s
		set := newSetter()
		w.done.Go(func() { w.write(ctx, s, set) })
	}
	c.T.Cleanup(w.stop)
	return w
}

func (w *Writer) stop() {
	w.cancel()
	w.done.Wait()
}

func (w *Writer) write(ctx context.Context, s *series, set setter) {
	tick := time.NewTicker(w.pause)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		err := set(call, s.key(n), s.value(n, w.size))
		cancel()
		s.mu.Lock()
		if err == nil {
			s.acked = append(s.acked, ack{n, time.Now()})
		} else if ctx.Err() == nil {
			s.failed, s.lastErr, s.errorAt = s.failed+1, err, time.Now()
		}
		s.mu.Unlock()
	}
}

func (s *series) key(n int) string { return fmt.Sprintf("{%s}:%d", s.tag, n) }

// value differs from key to key and has every byte.
func (s *series) value(n, size int) string {
	head := fmt.Sprintf("%s:%d:", s.tag, n)
	out := make([]byte, max(size, len(head)))
	for i := copy(out, head); i < len(out); i++ {
		out[i] = byte(i*7 + n)
	}
	return string(out)
}

// Acknowledged counts the acknowledged writes so far.
func (w *Writer) Acknowledged() int {
	total := 0
	for _, s := range w.series {
		s.mu.Lock()
		total += len(s.acked)
		s.mu.Unlock()
	}
	return total
}

// Lost is an acknowledged write that is not there, or is another value.
type Lost struct {
	Slot int
	At   time.Time // of the acknowledgement
}

// Finish ends the writing, reads every acknowledged key with a fresh client and gives those that are lost.
func (w *Writer) Finish() []Lost {
	w.cluster.T.Helper()
	w.stop()
	reader := w.cluster.Client()
	var lost []Lost
	for _, s := range w.series {
		if len(s.acked) == 0 {
			w.cluster.T.Errorf("no write to slot %d was ever acknowledged: %v", s.slot, s.lastErr)
		}
		for chunk := range slices.Chunk(s.acked, 500) {
			lost = append(lost, w.missing(reader, s, chunk)...)
		}
	}
	slices.SortFunc(lost, func(a, b Lost) int { return cmp.Or(a.Slot-b.Slot, a.At.Compare(b.At)) })
	return lost
}

func (w *Writer) missing(reader valkey.Client, s *series, chunk []ack) []Lost {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	commands := make(valkey.Commands, 0, len(chunk))
	for _, a := range chunk {
		commands = append(commands, reader.B().Get().Key(s.key(a.n)).Build())
	}
	var lost []Lost
	for i, result := range reader.DoMulti(ctx, commands...) {
		got, err := result.AsBytes()
		if err != nil && !valkey.IsValkeyNil(err) {
			w.cluster.T.Errorf("read %s: %v", s.key(chunk[i].n), err)
		}
		if !bytes.Equal(got, []byte(s.value(chunk[i].n, w.size))) {
			lost = append(lost, Lost{s.slot, chunk[i].at})
		}
	}
	return lost
}

// FinishComplete ends the writing and fails the test if one acknowledged write is lost.
func (w *Writer) FinishComplete() {
	w.cluster.T.Helper()
	if lost := w.Finish(); len(lost) > 0 {
		w.cluster.T.Errorf("%d of %d acknowledged writes are lost, the first in slot %d, acknowledged at %s",
			len(lost), w.Acknowledged(), lost[0].Slot, lost[0].At.Format("15:04:05.000"))
	}
}

// LongestGap is the longest time without an acknowledged write since a moment, in any series whose slot is in the set.
func (w *Writer) LongestGap(since time.Time, in slot.Set) Gap {
	var worst Gap
	for _, s := range w.series {
		if !in.Has(s.slot) {
			continue
		}
		s.mu.Lock()
		previous := since
		for _, a := range s.acked {
			if a.at.Before(since) {
				continue
			}
			if gap := a.at.Sub(previous); gap > worst.Length {
				worst = Gap{s.slot, previous, gap, s.lastErr}
			}
			previous = a.at
		}
		s.mu.Unlock()
	}
	return worst
}

// Back waits until every series has an acknowledged write after a moment, and gives the longest time that took.
func (w *Writer) Back(within time.Duration, since time.Time) time.Duration {
	w.cluster.T.Helper()
	var worst time.Duration
	Eventually(w.cluster.T, within, "writes to every shard", func() error {
		worst = 0
		var down []string
		for _, s := range w.series {
			s.mu.Lock()
			i, _ := slices.BinarySearchFunc(s.acked, since, func(a ack, t time.Time) int { return a.at.Compare(t) })
			if i == len(s.acked) || s.errorAt.After(s.acked[len(s.acked)-1].at) {
				down = append(down, fmt.Sprintf("slot %d: %v", s.slot, s.lastErr))
			} else {
				worst = max(worst, s.acked[i].at.Sub(since))
			}
			s.mu.Unlock()
		}
		if len(down) > 0 {
			return fmt.Errorf("no writes yet: %s", strings.Join(down, "; "))
		}
		return nil
	})
	return worst
}

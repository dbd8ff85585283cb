// Command client is a Valkey client as an application would be: it is told one address, learns the cluster from it, writes keys,
// reads them back and follows redirects. The bed puts it into its client image.
//
//	client -addr cache:6379 -keys 1000
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"
)

func main() {
	addr := flag.String("addr", "cache:6379", "`host:port` of any node of the cluster")
	keys := flag.Int("keys", 1000, "how many keys to write and read back")
	within := flag.Duration("within", 30*time.Second, "give up after this time")
	flag.Parse()
	if flag.NArg() > 0 || *keys < 1 {
		fmt.Fprintln(os.Stderr, "client: no arguments, and at least one key (try -help)")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *within)
	defer cancel()
	if err := run(ctx, *addr, *keys); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addr string, keys int) error {
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{addr}, DisableCache: true, Dialer: net.Dialer{Timeout: 2 * time.Second},
	})
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	defer client.Close()
	start := time.Now()
	key := func(i int) string { return fmt.Sprintf("quickstart:%d", i) }
	value := func(i int) string { return fmt.Sprintf("value %d of %d", i, start.UnixNano()) }
	var writes, reads valkey.Commands
	for i := range keys {
		writes = append(writes, client.B().Set().Key(key(i)).Value(value(i)).Build())
		reads = append(reads, client.B().Get().Key(key(i)).Build())
	}
	for i, result := range client.DoMulti(ctx, writes...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("set %s: %w", key(i), err)
		}
	}
	for i, result := range client.DoMulti(ctx, reads...) {
		got, err := result.ToString()
		if err != nil {
			return fmt.Errorf("get %s: %w", key(i), err)
		}
		if got != value(i) {
			return fmt.Errorf("get %s: %q, want %q", key(i), got, value(i))
		}
	}
	fmt.Printf("%d keys written and read back in %d ms\n", keys, time.Since(start).Milliseconds())
	return spread(ctx, client)
}

// spread tells how many keys each primary holds.
func spread(ctx context.Context, client valkey.Client) error {
	var lines []string
	for addr, node := range client.Nodes() {
		role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
		if err != nil {
			return fmt.Errorf("ask %s for its role: %w", addr, err)
		}
		// The first word of ROLE is the protocol's own name for a primary.
		if word, _ := role[0].ToString(); word != "master" {
			continue
		}
		held, err := node.Do(ctx, node.B().Dbsize().Build()).AsInt64()
		if err != nil {
			return fmt.Errorf("ask %s for its size: %w", addr, err)
		}
		lines = append(lines, fmt.Sprintf("%6d keys on the primary at %s", held, addr))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	return nil
}

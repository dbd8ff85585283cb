// Package bench measures what issue and contract set numbers for, beside valkey-cli on equal pods in the same run. It
// reports and does not judge: two cores that do something else at the same time make any number.
//
//	test/bed/bed up && test/bed/bed images
//	go test -count=1 -timeout 60m -v -exec 'test/bed/bed exec hub' ./test/bench/...
package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/momentohq/valkey-operator/test/e2e/lab"
)

// row is a line of the report: what was measured, ours, the other's, and the goal.
type row struct{ what, ours, other, goal string }

var report []row

func TestMain(m *testing.M) {
	if _, err := lab.Open(); err != nil {
		fmt.Fprintf(os.Stderr, "bench: the test bed cannot be used: %v\n", err)
		os.Exit(1)
	}
	code := m.Run()
	fmt.Println()
	row{"", "operator", "valkey-cli", "goal"}.print80()
	for _, r := range report {
		r.print80()
	}
	os.Exit(code)
}

// print80 prints a row in 80 columns.
func (r row) print80() {
	fmt.Println(strings.TrimRight(fmt.Sprintf("%-33s %13s %13s  %s", r.what, r.ours, r.other, r.goal), " "))
}

// heading starts a part of the report; add adds a row to it. Both show it at once.
func heading(text string) { put(row{what: text}) }

func add(what, ours, other, goal string) { put(row{"  " + what, ours, other, goal}) }

func put(r row) {
	report = append(report, r)
	r.print80()
}

// spread is the best and the worst.
func spread(all []time.Duration) string {
	return fmt.Sprintf("%.2f .. %.2f", slices.Min(all).Seconds(), slices.Max(all).Seconds())
}

// seconds rounds for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// median of an odd or even number of durations; the lower of the two middle ones.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

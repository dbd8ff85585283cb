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
	print80(report)
	os.Exit(code)
}

// print80 prints the report in 80 columns.
func print80(rows []row) {
	line := func(r row) { fmt.Printf("%-33s %11s %13s  %s\n", r.what, r.ours, r.other, r.goal) }
	fmt.Println()
	line(row{"", "operator", "valkey-cli", "goal"})
	for _, r := range rows {
		line(r)
	}
}

// heading starts a part of the report.
func heading(text string) { report = append(report, row{what: text}) }

func add(what, ours, other, goal string) {
	r := row{"  " + what, ours, other, goal}
	report = append(report, r)
	print80([]row{r})
}

// seconds rounds for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// median of an odd or even number of durations; the lower of the two middle ones.
func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

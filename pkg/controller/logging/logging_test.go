package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"
)

type line struct {
	Timestamp, Level, Target string
	Fields                   map[string]any
}

func lines(t *testing.T, text string) []line {
	t.Helper()
	var out []line
	for _, one := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var parsed line
		decoder := json.NewDecoder(strings.NewReader(one))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&parsed); err != nil {
			t.Fatalf("%v: %s", err, one)
		}
		if _, err := time.Parse(time.RFC3339Nano, parsed.Timestamp); err != nil {
			t.Error(err)
		}
		parsed.Timestamp = ""
		out = append(out, parsed)
	}
	return out
}

func TestLinesHaveTheShapeThatRunbooksKnow(t *testing.T) {
	var out bytes.Buffer
	logger := logr.FromSlogHandler(New(&out, 4)).WithName("valkeynode").WithValues("namespace", "ns", "node", "a")
	logger.Info("creating Pod for node", "pod", "a", "node", "b", "tries", 3, "took", 1500*time.Millisecond,
		"key", cache.ObjectName{Namespace: "ns", Name: "x"})
	logger.Error(errors.New(`broken "pipe" <&>`), "reconcile error, requeuing")
	logger.V(2).Info("decided")
	logger.V(4).Info("seen")
	logger.V(5).Info("too chatty")
	logger.WithName("sub").Info("odd", "f", math.Inf(1), "c", func() {})
	node := map[string]any{"namespace": "ns", "node": "a"}
	with := func(message string, more map[string]any) map[string]any {
		all := map[string]any{"message": message}
		for _, m := range []map[string]any{node, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	got := lines(t, out.String())
	want := []line{
		{Level: "INFO", Target: "valkey_operator::valkeynode", Fields: with("creating Pod for node",
			map[string]any{"pod": "a", "node": "b", "tries": 3.0, "took": "1.5s", "key": "ns/x"})},
		{Level: "ERROR", Target: "valkey_operator::valkeynode", Fields: with("reconcile error, requeuing",
			map[string]any{"error": `broken "pipe" <&>`})},
		{Level: "INFO", Target: "valkey_operator::valkeynode", Fields: with("decided", nil)},
		{Level: "DEBUG", Target: "valkey_operator::valkeynode", Fields: with("seen", nil)},
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Error(diff)
	}
	last := got[len(got)-1]
	if len(got) != 5 || last.Target != "valkey_operator::valkeynode::sub" || last.Fields["f"] != "+Inf" {
		t.Errorf("%d lines, the last is %v", len(got), last)
	}
	if strings.Count(out.String(), `"node":`) != 5 {
		t.Error("a key stands twice in a line")
	}
}

func TestGroupsJoinTheirNameToTheKeys(t *testing.T) {
	var out bytes.Buffer
	slog.New(New(&out, 0)).WithGroup("a").With("b", 1).WithGroup("").Warn("m", slog.Group("c", "d", 2), slog.Group("", "e", 3), "message", "x")
	want := []line{{Level: "WARN", Target: "valkey_operator", Fields: map[string]any{
		"message": "m", "a.b": 1.0, "a.c.d": 2.0, "a.e": 3.0, "a.message": "x"}}}
	if diff := cmp.Diff(want, lines(t, out.String())); diff != "" {
		t.Error(diff)
	}
}

func TestLinesOfManyGoroutinesDoNotMix(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(New(&out, 0))
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { logger.With("i", i).Info(strings.Repeat("x", 1000)) })
	}
	all.Wait()
	if n := len(lines(t, out.String())); n != 20 {
		t.Errorf("%d lines", n)
	}
}

func FuzzEveryTextIsOneValidLine(f *testing.F) {
	f.Add("message", "key", "value")
	f.Add("a\nb", "k\"", "\xff\x00")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		var out bytes.Buffer
		slog.New(New(&out, 0)).Info(message, key, value)
		if !json.Valid(out.Bytes()) || bytes.Count(out.Bytes(), []byte("\n")) != 1 {
			t.Errorf("%q", out.String())
		}
	})
}

// Package logging writes log lines in the shape that runbooks and collectors know
// (contract §7): one JSON object a line,
//
//	{"timestamp":"…","level":"INFO","fields":{"message":"…","cluster_name":"…"},"target":"valkey_operator::valkeynode"}
package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// root is the target of lines that no part of the operator claims.
const root = "valkey_operator"

// Handler is a slog.Handler of that shape. Attributes become fields; "logger" becomes the
// target, "err" the field "error". Groups join their name to the key with a dot.
type Handler struct {
	out    *output
	least  slog.Level
	prefix string
	attrs  []slog.Attr
}

// output makes lines of several goroutines follow each other.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

// New writes to w what is at most as chatty as the verbosity: 0 for what must be known, 2 for
// decisions, 4 for what was seen.
func New(w io.Writer, verbosity int) *Handler {
	return &Handler{out: &output{w: w}, least: slog.Level(-verbosity)}
}

// Install makes klog, ours and client-go's, write through a Handler.
func Install(w io.Writer, verbosity int) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return fmt.Errorf("set klog's verbosity: %w", err)
	}
	klog.SetSlogLogger(slog.New(New(w, verbosity)))
	return nil
}

// Enabled says whether a line of that level is written.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.least }

// WithAttrs gives a handler that adds these fields to each line.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.attrs = append([]slog.Attr(nil), h.attrs...)
	for _, a := range attrs {
		next.attrs = flatten(next.attrs, h.prefix, a)
	}
	return &next
}

// WithGroup gives a handler that puts the name before the keys that follow.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix += name + "."
	return &next
}

// Handle writes one line.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	attrs := append([]slog.Attr(nil), h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = flatten(attrs, h.prefix, a)
		return true
	})
	var line bytes.Buffer
	line.WriteString(`{"timestamp":`)
	encode(&line, r.Time.UTC().Format("2006-01-02T15:04:05.000000Z"))
	line.WriteString(`,"level":"` + levelName(r.Level) + `","fields":{"message":`)
	encode(&line, r.Message)
	target := root
	for i, a := range attrs {
		if a.Key == "logger" {
			target = root + "::" + strings.ReplaceAll(a.Value.String(), "/", "::")
			continue
		}
		if a.Key == "message" || isOverridden(attrs, i) {
			continue
		}
		line.WriteByte(',')
		encode(&line, fieldName(a.Key))
		line.WriteByte(':')
		encode(&line, plain(a.Value))
	}
	line.WriteString(`},"target":`)
	encode(&line, target)
	line.WriteString("}\n")
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(line.Bytes())
	return err
}

// isOverridden says whether a later attribute has the same key: it wins, since a key twice is
// no good JSON.
func isOverridden(attrs []slog.Attr, i int) bool {
	for _, later := range attrs[i+1:] {
		if later.Key == attrs[i].Key {
			return true
		}
	}
	return false
}

func flatten(into []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	a.Value = a.Value.Resolve()
	if a.Value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range a.Value.Group() {
			into = flatten(into, prefix, member)
		}
		return into
	}
	if a.Key == "" {
		return into
	}
	return append(into, slog.Attr{Key: prefix + a.Key, Value: a.Value})
}

func fieldName(key string) string {
	if key == "err" {
		return "error"
	}
	return key
}

func levelName(level slog.Level) string {
	switch {
	case level >= slog.LevelError:
		return "ERROR"
	case level >= slog.LevelWarn:
		return "WARN"
	case level > slog.LevelDebug:
		return "INFO"
	case level > 2*slog.LevelDebug:
		return "DEBUG"
	}
	return "TRACE"
}

// plain is the value in a form that JSON shows as a person would write it.
func plain(v slog.Value) any {
	switch v.Kind() {
	case slog.KindDuration:
		return v.Duration().String()
	case slog.KindTime:
		return v.Time().UTC().Format(time.RFC3339Nano)
	}
	switch value := v.Any().(type) {
	case error, fmt.Stringer:
		// Not by their own methods: fmt survives those of a nil pointer.
		return fmt.Sprint(value)
	default:
		return value
	}
}

// encode never fails: what JSON cannot hold is written as text.
func encode(to *bytes.Buffer, value any) {
	var one bytes.Buffer
	encoder := json.NewEncoder(&one)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		one.Reset()
		// A string is always encoded.
		_ = encoder.Encode(fmt.Sprint(value))
	}
	to.Write(bytes.TrimSuffix(one.Bytes(), []byte("\n")))
}

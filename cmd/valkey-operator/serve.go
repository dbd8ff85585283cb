package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
)

// health is what the probes are told.
type health struct {
	// ready: the CRDs fit and the caches are filled. A standby is ready too, or a Deployment
	// that surges would wait for ever.
	ready atomic.Bool
	// alive says what is wrong with the process, nil for nothing.
	alive func() error
}

// serve answers probes and scrapes on one port until it is closed. The address is taken when
// it returns; end returns when the server has ended.
func serve(ctx context.Context, address string, m *metrics.Metrics, h *health) (end func(), err error) {
	if address == "0" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, wrong("--metrics-bind-address: %w", err)
	}
	server := &http.Server{Handler: handler(m, h), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "serving metrics and probes failed")
		}
	}()
	return func() {
		// Whoever scrapes is not worth waiting for.
		_ = server.Close()
		<-ended
	}, nil
}

func handler(m *metrics.Metrics, h *health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", m.Handler())
	mux.HandleFunc("GET /healthz", answer(func() error { return h.alive() }))
	mux.HandleFunc("GET /readyz", answer(func() error {
		if !h.ready.Load() {
			return errors.New("not ready: the CRDs are not there or the caches are not filled")
		}
		return nil
	}))
	return mux
}

func answer(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ok")
	}
}

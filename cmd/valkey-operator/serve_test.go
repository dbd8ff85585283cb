package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/momentohq/valkey-operator/pkg/controller/metrics"
)

func ask(h http.Handler, method, path string) (code int, body string) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
	return answer.Code, answer.Body.String()
}

func TestProbesTellAliveAndReadyApart(t *testing.T) {
	state := &health{alive: func() error { return nil }}
	h := handler(metrics.New("test"), state)
	for _, step := range []struct {
		path string
		code int
		do   func()
	}{
		{"/healthz", http.StatusOK, func() {}},
		{"/readyz", http.StatusServiceUnavailable, func() {}},
		{"/readyz", http.StatusOK, func() { state.ready.Store(true) }},
		{"/healthz", http.StatusServiceUnavailable, func() { state.alive = func() error { return errors.New("stuck") } }},
		{"/metrics", http.StatusOK, func() {}},
		{"/debug/pprof/", http.StatusNotFound, func() {}},
	} {
		step.do()
		if code, body := ask(h, http.MethodGet, step.path); code != step.code {
			t.Errorf("%s: %d %s", step.path, code, body)
		}
	}
	if code, _ := ask(h, http.MethodPost, "/healthz"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered with %d", code)
	}
}

func TestTheServerEndsWhenItIsClosedAndAPortThatIsTakenIsAMistake(t *testing.T) {
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	var mistake *usageError
	if _, err := serve(ctx, taken.Listener.Addr().String(), metrics.New("test"), &health{}); !errors.As(err, &mistake) {
		t.Errorf("%v", err)
	}
	address := "127.0.0.1:0"
	end, err := serve(ctx, address, metrics.New("test"), &health{})
	if err != nil {
		t.Fatal(err)
	}
	end()
	end, err = serve(ctx, "0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	end()
}

func TestMetricsAreServedAsText(t *testing.T) {
	server := httptest.NewServer(handler(metrics.New("v7"), &health{}))
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), `valkey_operator_build_info{version="v7"} 1`) {
		t.Errorf("%v: %s", err, body)
	}
}

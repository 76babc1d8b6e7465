package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/pulsar-client-go/pulsar"
)

func TestPulsarLaneIsTheRecords(t *testing.T) {
	for _, lane := range []int32{0, 5} {
		if got := pulsarLane(&pulsar.ProducerMessage{Payload: stamped(lane, 3, 4)}, nil); got != int(lane) {
			t.Errorf("lane %d goes to partition %d", lane, got)
		}
	}
}

// TestPulsarFlushes: the table says that Pulsar answers after the flush.
func TestPulsarFlushes(t *testing.T) {
	if !strings.Contains((&pulsarPair{options: &options{}}).conf(0), "\njournalSyncData=true\n") {
		t.Error("the bookie does not flush")
	}
}

func TestPulsarAsk(t *testing.T) {
	var last string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		last = r.Method + " " + r.URL.Path + " " + string(body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/there"):
			w.WriteHeader(http.StatusConflict)
		case strings.HasSuffix(r.URL.Path, "/bad"):
			http.Error(w, "no such cluster", http.StatusPreconditionFailed)
		}
	}))
	defer server.Close()
	ctx := context.Background()
	if err := askPulsar(ctx, server.URL, http.MethodPut, "namespaces/x", []string{"a"}); err != nil || last != `PUT /admin/v2/namespaces/x ["a"]` {
		t.Errorf("%q, %v", last, err)
	}
	if err := askPulsar(ctx, server.URL, http.MethodGet, "brokers/health", nil); err != nil || last != "GET /admin/v2/brokers/health " {
		t.Errorf("%q, %v", last, err)
	}
	if err := askPulsar(ctx, server.URL, http.MethodPut, "there", 6); err != nil {
		t.Errorf("what is there already: %v", err)
	}
	if err := askPulsar(ctx, server.URL, http.MethodPut, "bad", nil); err == nil || !strings.Contains(err.Error(), "no such cluster") {
		t.Errorf("a refusal: %v", err)
	}
}

func TestJarsNeedJava(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := installJars(context.Background(), "Pulsar", t.TempDir(), pulsarPOM)
	if err == nil || !strings.Contains(err.Error(), "Pulsar needs a Java runtime") {
		t.Errorf("without java: %v", err)
	}
}

package server

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A certificate that ends soon is told in the log, in the region's health and as a
// metric; a new one in its place ends that, without a restart.
func TestCertificateThatEndsSoonIsTold(t *testing.T) {
	ca, err := certs.NewCA(rhumb.UUID{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := &config.TLS{Cert: filepath.Join(dir, "us.crt"), Key: filepath.Join(dir, "us.key")}
	issue := func(valid time.Duration) time.Time {
		t.Helper()
		pair, err := ca.IssueRegion("us", nil, valid)
		if err == nil {
			err = pair.Save(files.Cert, files.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		return pair.Cert.NotAfter
	}
	end := issue(10 * 24 * time.Hour)
	cfg := configure(t)
	cfg.Listeners = append(cfg.Listeners, config.Listener{Name: "secure", Protocol: config.ProtocolKafka, Bind: "127.0.0.1:0", TLS: files})
	f := start(t, cfg)
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get("http://" + f.admin() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	metric := func(end time.Time) string {
		return fmt.Sprintf("rhumb_certificate_expiry_seconds{listener=\"secure\"} %v\n", float64(end.Unix()))
	}
	if text := get("/metrics"); !strings.Contains(text, metric(end)) || !strings.Contains(text, "rhumb_kafka_logins_failed_total 0") {
		t.Errorf("no metric %s", metric(end))
	}
	if text := get("/admin/v1/region"); !strings.Contains(text, "certificate expires") || !strings.Contains(text, "listener secure") {
		t.Errorf("not in the region's health: %s", text)
	}
	until(t, "the log tells", func() bool { return strings.Contains(f.log.String(), "certificate expires") })
	end = issue(365 * 24 * time.Hour)
	if text := get("/metrics"); !strings.Contains(text, metric(end)) {
		t.Errorf("no metric %s", metric(end))
	}
	if text := get("/admin/v1/region"); strings.Contains(text, "certificate") {
		t.Errorf("still in the region's health: %s", text)
	}
}

// A certificate that has ended is told in the log at the start.
func TestCertificateThatEndedIsToldAtStart(t *testing.T) {
	ca, err := certs.NewCA(rhumb.UUID{1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := &config.TLS{Cert: filepath.Join(dir, "us.crt"), Key: filepath.Join(dir, "us.key")}
	pair, err := ca.IssueRegion("us", nil, time.Nanosecond)
	if err == nil {
		err = pair.Save(files.Cert, files.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := configure(t)
	cfg.Listeners = append(cfg.Listeners, config.Listener{Name: "secure", Protocol: config.ProtocolKafka, Bind: "127.0.0.1:0", TLS: files})
	f := start(t, cfg)
	until(t, "the log tells", func() bool {
		return strings.Contains(f.log.String(), "certificate expired")
	})
}

package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestLogWritesDefault: a region whose file says nothing writes its log past the page cache
// where the trial says so, and through it where not; the log and a metric tell which. The
// next start may come to the other answer: it reads what the one before wrote.
func TestLogWritesDefault(t *testing.T) {
	cfg := configure(t)
	no := fmt.Errorf("%w: a test says so", vfs.ErrNoDirect)
	var stored []string
	for i, c := range []struct {
		writes config.LogWrites
		trial  error
		said   string
		metric string
	}{
		{config.Defaults().LogWrites, nil, "past the page cache", "1"},
		{config.Defaults().LogWrites, no, "through the page cache", "0"},
		{config.LogWritesDirect, no, "past the page cache", "1"},
		{config.LogWritesCached, nil, "through the page cache", "0"},
		{config.Defaults().LogWrites, nil, "past the page cache", "1"},
	} {
		cfg.LogWrites = c.writes
		f := launchOn(t, cfg, &disk{FS: vfs.OS(), direct: func() error { return c.trial }}, (*Server).Run)
		f.ready()
		if text := f.log.String(); !strings.Contains(text, c.said) || strings.Contains(text, "a test says so") != (c.metric == "0" && c.trial != nil) {
			t.Errorf("start %d does not say %q, with its reason: %s", i, c.said, text)
		}
		if _, text := get("http://"+f.admin()+"/metrics", ""); !strings.Contains(text, "\nrhumb_storage_log_direct "+c.metric+"\n") {
			t.Errorf("start %d: rhumb_storage_log_direct is not %s", i, c.metric)
		}
		one := strings.Repeat(string(rune('a'+i)), 300_000)
		stored = append(stored, one, one+"2")
		client := f.client(f.kafka())
		f.produce(client, "large", one)
		f.produce(client, "large", one+"2")
		f.consume(f.kafka(), "large", stored...)
		client.Close()
		if i%2 == 0 {
			f.server.Kill()
		}
		f.stop()
		if err := f.end(); err != nil && i%2 != 0 {
			t.Errorf("start %d ends with %v", i, err)
		}
	}
}

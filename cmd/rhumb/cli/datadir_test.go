package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// makeDataDir lets a real region of one node write a topic into a folder, and
// stops it.
func makeDataDir(t *testing.T, dir string) {
	t.Helper()
	t.Run("write", func(t *testing.T) { writeDataDir(t, dir) })
}

func writeDataDir(t *testing.T, dir string) {
	r := brokertest.Real(t, func(c *storage.Config, _ *region.Config) {
		c.FS, c.Dir, c.Shards, c.FileSize = vfs.OS(), dir, 2, 1<<20
	})
	ctx := t.Context()
	b, err := broker.New(broker.Config{Region: r})
	if err != nil {
		t.Fatal(err)
	}
	live := admin.Live{Region: r, Broker: b}
	orders := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: "orders"}
	if _, err := live.CreateTopic(ctx, orders, 1, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		batch := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: fmt.Appendf(nil, "record %d, long enough to be hit", i)}})
		if _, err := live.Produce(ctx, orders, 0, batch); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDirectoryThatCannotBeReadIsAnError: it is told where and as other errors are.
func TestDirectoryThatCannotBeReadIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nowhere")
	for _, do := range []string{"verify", "dump"} {
		if out := said(t, exitUnknown, "rhumb: "+dir+": open ", "log", do, dir); out != "" {
			t.Errorf("log %s prints %q", do, out)
		}
	}
}

// damage flips a bit of a record in the middle of the first log file.
func damage(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "log", "*.log"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no log file: %w", err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	at := bytes.Index(text, []byte("record 20"))
	if at < 0 {
		return fmt.Errorf("the record is not in %s", files[0])
	}
	text[at] ^= 0x20
	return os.WriteFile(files[0], text, 0o600)
}

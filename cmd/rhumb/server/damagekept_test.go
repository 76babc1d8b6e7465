package server

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// flip changes a byte of the first place in a region's log where marker stands.
func flip(t *testing.T, cfg config.Config, marker []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(cfg.DataDir, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.Index(content, marker); at >= 0 {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte{content[at] ^ 0x40}, int64(at)); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no file of %v holds the marker", files)
}

// told gives what health says of damage.
func (f *fixture) told() string {
	for _, p := range f.server.health().Problems {
		if p.Part == "storage" && p.State == "damaged" {
			return p.Message
		}
	}
	return ""
}

// TestDamageIsToldAfterARestart: health names a batch that cannot be read in each later run
// as well, whether somebody reads it or not, and no more when the file is whole again.
func TestDamageIsToldAfterARestart(t *testing.T) {
	cfg := configure(t)
	cfg.Shards = 1
	f := start(t, cfg)
	c := f.client(f.kafka(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	noise := make([]byte, 300<<10)
	for i := range noise {
		noise[i] = byte(rand.Int32())
	}
	f.produce(c, "orders", "marker-of-the-batch "+string(noise))
	for range 20 { // enough for some files of the log, so that no start reads the first one
		f.produce(c, "orders", string(noise))
	}
	ref := f.server.Region().Topics()[0].Partitions[0].Ref
	again := func() {
		t.Helper()
		f.stop()
		if err := f.end(); err != nil {
			t.Fatal(err)
		}
		f = start(t, cfg)
	}
	read := func() error {
		_, err := f.server.Region().Read(ref, region.Query{From: 0, Limit: math.MaxInt64, MaxBytes: 1})
		return err
	}

	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	flip(t, cfg, []byte("marker-of-the-batch"))
	f = start(t, cfg)
	if told := f.told(); told != "" {
		t.Errorf("told before anybody could know: %s", told)
	}
	if err := read(); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Fatalf("read: %v", err)
	}
	scope := damageScope(nodeID(f.server.Self().Number, 0))
	until(t, "what cannot be read is kept", func() bool { return len(f.server.Region().Settings(scope)) == 1 })
	for range 2 {
		again()
		until(t, "health tells of the damage after a restart", func() bool { return strings.Contains(f.told(), "orders, partition 0") })
	}

	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	flip(t, cfg, []byte("\x2darker-of-the-batch")) // 'm' ^ 0x40
	f = start(t, cfg)
	until(t, "what can be read again is forgotten", func() bool { return len(f.server.Region().Settings(scope)) == 0 })
	if told := f.told(); told != "" {
		t.Errorf("told of a file that is whole again: %s", told)
	}
	if err := read(); err != nil {
		t.Error(err)
	}
}

func TestKeptDamageIsReadBack(t *testing.T) {
	d := damagedBatch{rhumb.PartitionRef{Shard: 3, ID: 1 << 40}, 85}
	if got, ok := readDamaged(d.key()); !ok || got != d {
		t.Errorf("%q is read as %+v, %v", d.key(), got, ok)
	}
	for _, bad := range []string{"", "1", "1/2", "1/2/-3", "1/2/3/4", "x/2/3", "01/2/3", "-1/2/3", "99999999999999999999/2/3"} {
		if got, ok := readDamaged(bad); ok {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

// TestReadOfALostEndPointsToTheDisk: the end of a log file is lost while the region runs.
// Kafka's clients get the code of damaged data, and who reads over HTTP is told how to see
// what is damaged, not that it is a fault of the server.
func TestReadOfALostEndPointsToTheDisk(t *testing.T) {
	cfg := configure(t)
	cfg.Shards = 1
	f := start(t, cfg)
	c := f.client(f.kafka(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 20 { // some files of the log: no start reads the first one
		f.produce(c, "orders", strings.Repeat("x", 300<<10))
	}
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	f = start(t, cfg) // nothing is in memory
	files, err := filepath.Glob(filepath.Join(cfg.DataDir, "log", "*.log"))
	if err != nil || len(files) < 3 {
		t.Fatalf("log files %v, %v", files, err)
	}
	if err := os.Truncate(files[0], 0); err != nil {
		t.Fatal(err)
	}
	status, body := get("http://"+f.admin()+"/admin/v1/topics/public/default/orders/partitions/0/records?from=0", "")
	if status != http.StatusInternalServerError || !strings.Contains(body, `"corrupt"`) || !strings.Contains(body, "rhumb log verify") || strings.Contains(body, "report it") {
		t.Errorf("over HTTP: %d %s", status, body)
	}
	reader := f.client(f.kafka(), kgo.ConsumeTopics("orders"), kgo.KeepRetryableFetchErrors())
	if fetches := reader.PollFetches(f.ctx()); !errors.Is(fetches.Err(), kerr.CorruptMessage) {
		t.Errorf("over Kafka's protocol: %v, %d records", fetches.Err(), fetches.NumRecords())
	}
}

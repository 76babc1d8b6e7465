package process

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Connections that do nothing, as many as anybody cares to open, do not take the files
// that a region needs: it goes on to new log files, and serves the link and who is there.
func TestConnectionsLeaveFilesToTheRegion(t *testing.T) {
	var have syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have)
	switch few := err != nil || have.Cur < 2000; {
	case few && os.Getenv("CI") == "true":
		t.Fatalf("this process may have %d files open, and opens 1,600 connections (%v)", have.Cur, err)
	case few:
		t.Skipf("this process may have %d files open, and opens 1,600 connections (%v)", have.Cur, err)
	}
	m := start(&Mesh{t: t, limits: smallLimits, before: func(*Region) string { return "ulimit -n 300" }}, []rhumb.RegionName{"us", "eu"})
	m.create("us", "orders", 2)
	m.create("us", "large", 1)
	tr := m.Produce("orders", 2, 1)
	tr.Progress(50, "us", "eu")
	client, err := kgo.NewClient(kgo.SeedBrokers(m.Regions[0].Kafka), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	publish := func() {
		ctx, cancel := context.WithTimeout(t.Context(), Limit)
		defer cancel()
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "large", Value: make([]byte, 900<<10)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	publish() // its connections are there before the others
	var idle []net.Conn
	for _, r := range m.Regions {
		for range 400 {
			for _, addr := range []string{r.Kafka, r.Admin} {
				if c, err := net.Dial("tcp", addr); err == nil { // one that was refused is none
					idle = append(idle, c)
				}
			}
		}
	}
	for range 12 { // of which four fill a log file
		publish()
	}
	tr.Progress(200, "us", "eu")
	for _, c := range idle {
		c.Close()
	}
	tr.Finish()
	m.Verify("orders", "large")
	tr.Check(m)
}

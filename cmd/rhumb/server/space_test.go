package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// With too little space producers get an error that says try again, consumers
// read on, and both are served again once there is space.
func TestLowSpaceRefusesWritesAndRecovers(t *testing.T) {
	cfg := configure(t)
	cfg.MinFree = config.MinFree{Bytes: 1 << 30}
	f := launch(t, cfg)
	f.disk.leave(2 << 30)
	<-f.server.Ready()
	c := f.client(f.kafka(), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	f.produce(c, "orders", "first")

	f.disk.leave(1<<30 - 1)
	until(t, "writes are refused", func() bool {
		err := c.ProduceSync(f.ctx(), &kgo.Record{Topic: "full", Value: []byte("x")}).FirstErr()
		return err != nil
	})
	err := c.ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("refused")}).FirstErr()
	if ke := new(kerr.Error); !errors.As(err, &ke) || !ke.Retriable {
		t.Errorf("the producer got %v, want an error that says try again", err)
	}
	f.makesNothing()
	f.consume(f.kafka(), "orders", "first")
	code, body := get("http://"+f.admin()+"/healthz", "")
	if code != 200 {
		t.Errorf("healthz is %d: a restart frees no space: %s", code, body)
	}
	if _, body := get("http://"+f.admin()+"/metrics", ""); !strings.Contains(body, "rhumb_storage_state 1") {
		t.Error("the metrics do not say low space")
	}

	patient := f.client(f.kafka()) // tries again until there is space
	answer := make(chan error, 1)
	patient.Produce(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("second")}, func(_ *kgo.Record, err error) { answer <- err })
	f.disk.leave(2 << 30)
	if err := <-answer; err != nil {
		t.Errorf("after there is space again: %v", err)
	}
	f.consume(f.kafka(), "orders", "first", "second")
}

// Topics and partitions take space as well.
func (f *fixture) makesNothing() {
	f.Helper()
	r := f.server.Region()
	topic := func(name rhumb.TopicName) rhumb.Topic {
		return rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: name}
	}
	if _, err := r.CreateTopic(f.ctx(), region.TopicSpec{Topic: topic("another"), Partitions: 1}); rhumb.KindOf(err) != rhumb.KindOf(r.Health().Store) {
		f.Errorf("a topic is made on a full disk: %v", err)
	}
	if _, err := r.GrowTopic(f.ctx(), topic("orders"), 2); rhumb.KindOf(err) != rhumb.KindOf(r.Health().Store) {
		f.Errorf("partitions are made on a full disk: %v", err)
	}
	if _, err := r.CreateTopic(f.ctx(), region.TopicSpec{Topic: topic("orders"), Partitions: 1}); rhumb.KindOf(err) != rhumb.KindExists {
		f.Errorf("a topic that is there: %v", err)
	}
}

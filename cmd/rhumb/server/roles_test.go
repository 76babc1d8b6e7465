package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// roles gives public/default an active region and a standby.
func (f *fixture) roles(active, standby rhumb.RegionName) uint64 {
	f.Helper()
	w := f.server.room.view.Writer("test")
	ctx := f.ctx()
	if _, err := w.PutTenant(ctx, rhumb.DefaultTenant, func(*configstore.Tenant) error { return nil }); err != nil {
		f.Fatal(err)
	}
	for _, r := range []rhumb.RegionName{active, standby} {
		if _, ok := f.server.room.view.Region(r); !ok {
			if _, err := w.RegisterRegion(ctx, configstore.Region{Name: r}, 0); err != nil {
				f.Fatal(err)
			}
		}
	}
	n, err := w.PutNamespace(ctx, rhumb.DefaultTenant, rhumb.DefaultNamespace, func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{ActiveStandby: &configstore.ActiveStandby{Active: active, Standby: []rhumb.RegionName{standby}}}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	return n.Generation
}

// A standby refuses producers, whichever way they come, with an error that names
// the active region, and serves consumers. Once it is active it takes producers.
func TestI14StandbyRefusesProducersAndNamesTheActive(t *testing.T) {
	f := start(t, configure(t))
	c := f.client(f.kafka())
	f.produce(c, "orders", "before")
	if g := f.roles("eu", "us"); g != 1 {
		t.Fatalf("generation %d", g)
	}
	var err error
	until(t, "the standby refuses", func() bool {
		err = c.ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("late")}).FirstErr()
		return err != nil
	})
	if !errors.Is(err, kerr.PolicyViolation) || kerr.IsRetriable(err) {
		t.Errorf("the producer got %v, want a policy violation that is not tried again", err)
	}
	const words = "region us takes no producers in namespace public/default, whose active region is eu: produce there"
	code, body := send("POST", "http://"+f.admin()+"/admin/v1/topics/public/default/orders/records", `{"records":[{"value":"eA=="}]}`)
	if code != 403 || !strings.Contains(body, words) {
		t.Errorf("the admin API answers %d: %s", code, body)
	}
	f.consume(f.kafka(), "orders", "before")
	if g := f.roles("us", "eu"); g != 2 {
		t.Fatalf("generation %d", g)
	}
	until(t, "the active takes producers", func() bool {
		return c.ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("after")}).FirstErr() == nil
	})
	f.consume(f.kafka(), "orders", "before", "after")
}

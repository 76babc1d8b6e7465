package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestDrainingRegionTakesNoProducers: it says so to clients, stays so over a restart,
// and is not drained while its records are nowhere else; and takes them again.
func TestDrainingRegionTakesNoProducers(t *testing.T) {
	f := start(t, configure(t))
	f.produce(f.client(f.kafka()), "orders", "before")
	w := func() *configstore.Writer { return f.server.room.view.Writer("test") }
	if _, err := w().DrainRegion(f.ctx(), "us", false); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		c := f.client(f.kafka())
		err := c.ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("while it drains")}).FirstErr()
		return errors.Is(err, kerr.PolicyViolation)
	}
	until(t, "producers are refused", refused)
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	f = start(t, f.cfg)
	if !refused() {
		t.Error("after a restart it takes producers")
	}
	code, text := get("http://"+f.admin()+"/admin/v1/region", "")
	if code != http.StatusOK || !strings.Contains(text, `"alone":["persistent://public/default/orders"]`) || !strings.Contains(text, `"state":"draining"`) {
		t.Errorf("it does not tell what is nowhere else: %s", text)
	}
	if doc, _ := f.server.room.view.Region("us"); doc.State != configstore.RegionDraining {
		t.Errorf("it is %s", doc.State)
	}
	if _, err := w().RemoveRegion(f.ctx(), "us", false); err == nil {
		t.Error("removed before it was drained")
	}
	if _, err := w().DrainRegion(f.ctx(), "us", true); err != nil {
		t.Fatal(err)
	}
	until(t, "producers are taken again", func() bool { return !refused() })
}

// TestOtherNumberInTheFileIsRefused: a region keeps its number, whatever its file says
// later, and the refusal names the field.
func TestOtherNumberInTheFileIsRefused(t *testing.T) {
	f := start(t, configure(t))
	own := f.server.room.self.Number
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	for _, number := range []rhumb.RegionNumber{own + 1, 77} {
		cfg := f.cfg
		cfg.Region.Number = number
		if err := launch(t, cfg).end(); rhumb.KindOf(err) != rhumb.KindInvalid || !strings.Contains(err.Error(), "region.number: region us has number 1") {
			t.Errorf("number %d: %v", number, err)
		}
	}
	f.cfg.Region.Number = own
	start(t, f.cfg)
}

// TestRemovedRegionSaysSo: its health names it, it is not ready, and neither it nor a
// process on an empty directory starts under its name.
func TestRemovedRegionSaysSo(t *testing.T) {
	f := start(t, configure(t))
	f.produce(f.client(f.kafka()), "orders", "before")
	if _, err := f.server.room.view.Writer("test").RemoveRegion(f.ctx(), "us", true); err != nil {
		t.Fatal(err)
	}
	until(t, "it is not ready", func() bool {
		code, _ := get("http://"+f.admin()+"/readyz", "")
		return code == http.StatusServiceUnavailable
	})
	if _, text := get("http://"+f.admin()+"/admin/v1/region", ""); !strings.Contains(text, `"state":"removed"`) || !strings.Contains(text, "rhumb region register us") {
		t.Errorf("its health: %s", text)
	}
	f.stop()
	if err := f.end(); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{"its own directory": f.cfg.DataDir, "an empty one": t.TempDir()} {
		cfg := f.cfg
		cfg.DataDir = dir
		if err := launch(t, cfg).end(); !errors.Is(err, configstore.ErrRemoved) || strings.Contains(err.Error(), "\n") {
			t.Errorf("with %s: %v", what, err)
		}
	}
}

// TestRegionThatPeersKnowToBeRemoved: its own configuration store does not say so, since
// it went back. It takes no producers and changes nothing, keeps its data readable, says
// who says so and what to do, and is back when that peer takes it for a region again.
func TestRegionThatPeersKnowToBeRemoved(t *testing.T) {
	f := start(t, configure(t))
	f.produce(f.client(f.kafka()), "orders", "before")
	view, self := f.server.room.view, f.server.room.self
	if _, err := view.Writer("test").AddRegion(f.ctx(), configstore.Region{Name: "eu"}, 0); err != nil {
		t.Fatal(err)
	}
	ready := func(want int) func() bool {
		return func() bool {
			code, _ := get("http://"+f.admin()+"/readyz", "")
			return code == want
		}
	}
	published := []string{"before"}
	publish := func() error {
		err := f.client(f.kafka()).ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("after")}).FirstErr()
		if err == nil {
			published = append(published, "after")
		}
		return err
	}
	evidence := configstore.Removal{By: "eu", Name: "us", Number: self.Number, Version: self.Version + 7, At: self.UpdatedAt}
	for range 2 {
		view.HearRemoval(evidence)
		until(t, "it is not ready", ready(http.StatusServiceUnavailable))
		until(t, "it takes no producers", func() bool { return errors.Is(publish(), kerr.PolicyViolation) })
		_, err := view.Writer("test").PutTenant(f.ctx(), "acme", func(*configstore.Tenant) error { return nil })
		if !errors.Is(err, configstore.ErrRemoved) || !strings.Contains(err.Error(), "says region eu") {
			t.Errorf("a change: %v", err)
		}
		_, text := get("http://"+f.admin()+"/admin/v1/region", "")
		for _, want := range []string{`"state":"removed"`, "says region eu", "rhumb config status --region eu", `"state":"store went back"`} {
			if !strings.Contains(text, want) {
				t.Errorf("its health has no %s: %s", want, text)
			}
		}
		f.consume(f.kafka(), "orders", published...)
		view.HearMember("eu")
		until(t, "it is ready again", ready(http.StatusOK))
		until(t, "it takes producers again", func() bool { return publish() == nil })
	}
	until(t, "both are logged", func() bool {
		text := f.log.String()
		return strings.Count(text, "this region was removed from the mesh") == 2 && strings.Count(text, "in the mesh after all") == 2
	})
}

// TestOnePeerAloneSaysThatARegionWasRemoved: while another one takes its links it takes
// producers and is ready, changes nothing, and says who disagrees. When that one says so,
// too, it shuts; and the first can be removed through it.
func TestOnePeerAloneSaysThatARegionWasRemoved(t *testing.T) {
	f := start(t, configure(t))
	view, self := f.server.room.view, f.server.room.self
	for _, name := range []rhumb.RegionName{"eu", "ap"} {
		if _, err := view.Writer("test").AddRegion(f.ctx(), configstore.Region{Name: name}, 0); err != nil {
			t.Fatal(err)
		}
	}
	says := func(by rhumb.RegionName) {
		view.HearRemoval(configstore.Removal{By: by, Name: "us", Number: self.Number, Version: self.Version + 7, At: self.UpdatedAt})
	}
	shows := func(what, state string, code int, door error) {
		t.Helper()
		until(t, what, func() bool {
			got, _ := get("http://"+f.admin()+"/readyz", "")
			_, text := get("http://"+f.admin()+"/admin/v1/region", "")
			err := f.client(f.kafka()).ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("x")}).FirstErr()
			return got == code && errors.Is(err, door) && strings.Contains(text, `"state":"`+state+`"`) && strings.Contains(text, "region ap")
		})
	}
	says("ap")
	shows("it is shut: nobody says otherwise", "removed", http.StatusServiceUnavailable, kerr.PolicyViolation)
	view.HearMember("eu")
	shows("one says otherwise", "disputed", http.StatusOK, nil)
	if _, err := view.Writer("test").PutTenant(f.ctx(), "acme", func(*configstore.Tenant) error { return nil }); !errors.Is(err, configstore.ErrRemoved) {
		t.Errorf("a change: %v", err)
	}
	says("eu")
	shows("both say so", "removed", http.StatusServiceUnavailable, kerr.PolicyViolation)
	view.HearMember("eu")
	shows("one does not any more", "disputed", http.StatusOK, nil)
	if _, err := view.Writer("test").RemoveRegion(f.ctx(), "ap", true); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is disputed", func() bool {
		_, text := get("http://"+f.admin()+"/admin/v1/region", "")
		return !strings.Contains(text, "disputed") && !strings.Contains(text, "store went back")
	})
}

// TestRegionThatIsToldItWasRemovedTellsNothing: one that drains in an old store, and has nothing
// left to send, does not try each second to say so: the change would be refused.
func TestRegionThatIsToldItWasRemovedTellsNothing(t *testing.T) {
	f := start(t, configure(t))
	view, self := f.server.room.view, f.server.room.self
	if _, err := view.Writer("test").AddRegion(f.ctx(), configstore.Region{Name: "eu"}, 0); err != nil {
		t.Fatal(err)
	}
	view.HearRemoval(configstore.Removal{By: "eu", Name: "us", Number: self.Number, Version: self.Version + 7, At: self.UpdatedAt})
	store, err := embedded.Open(embedded.Config{Dir: f.cfg.ConfigStore.Embedded.Path})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := configstore.NewWriter(store, "test").DrainRegion(f.ctx(), "us", false); err != nil {
		t.Fatal(err)
	}
	until(t, "it drains", func() bool {
		doc, _ := view.Region("us")
		return doc.State == configstore.RegionDraining
	})
	for range 3 {
		f.server.noteDrained(f.ctx())
	}
	if n := strings.Count(f.log.String(), "cannot tell the mesh"); n > 0 {
		t.Errorf("it tried %d times", n)
	}
	view.HearMember("eu")
	until(t, "it is drained", func() bool {
		doc, _ := view.Region("us")
		return doc.State == configstore.RegionDrained
	})
}

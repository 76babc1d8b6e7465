package broker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// hanging is a store that does not answer any more, as an agent that is stopped, or an
// address behind which everything is dropped.
type hanging struct {
	configstore.Store
	hangs atomic.Bool
}

func (h *hanging) Get(ctx context.Context, key string) (configstore.Document, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return configstore.Document{}, context.Cause(ctx)
	}
	return h.Store.Get(ctx, key)
}

// TestChangesWithAStoreThatHangs deletes and changes a topic of the mesh while the
// store does not answer: the wait is bounded, and its end says whose silence it was.
func TestChangesWithAStoreThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		store := &hanging{Store: embedded.NewMemory()}
		if _, err := configstore.NewWriter(store, "test").EnsureMesh(t.Context()); err != nil {
			t.Fatal(err)
		}
		v, err := configstore.OpenView(t.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}, By: "test"})
		if err != nil {
			t.Fatal(err)
		}
		store.hangs.Store(true)
		m := broker.Mesh{View: v, Self: "us"}
		topic := rhumb.Topic{Tenant: "public", Namespace: "default", Name: "t"}
		_, err = m.DeleteLife(t.Context(), topic, 0)
		_, err2 := m.Change(t.Context(), topic, func(*configstore.Topic) error { return nil })
		for _, err := range []error{err, err2} {
			if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "has not answered within") ||
				!strings.Contains(err.Error(), "needs the configuration store, which does not answer") {
				t.Errorf("%v: %v", rhumb.KindOf(err), err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.DeleteLife(ctx, topic, 0); rhumb.KindOf(err) != rhumb.KindTimeout || !strings.Contains(err.Error(), "in the time of the request") {
			t.Errorf("a request whose own time is over: %v: %v", rhumb.KindOf(err), err)
		}
	})
}

// TestUnknownNamespaceNamesTheNearest: of the same tenant only, since of others the client
// may not know.
func TestUnknownNamespaceNamesTheNearest(t *testing.T) {
	s := embedded.NewMemory()
	w := configstore.NewWriter(s, "test")
	ctx := t.Context()
	_, err := w.EnsureMesh(ctx)
	for _, at := range []rhumb.Space{{Tenant: "acme", Namespace: "shop"}, {Tenant: "acne", Namespace: "shops"}} {
		if err == nil {
			_, err = w.PutTenant(ctx, at.Tenant, func(*configstore.Tenant) error { return nil })
		}
		if err == nil {
			_, err = w.PutNamespace(ctx, at.Tenant, at.Namespace, func(*configstore.Namespace) error { return nil })
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	v, err := configstore.OpenView(ctx, configstore.ViewConfig{Store: s, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		t.Fatal(err)
	}
	m := broker.Mesh{View: v, Self: "us"}
	for name, want := range map[rhumb.Topic]string{
		{Tenant: "acme", Namespace: "shpo", Name: "x"}:      "namespace acme/shpo does not exist (nearest: acme/shop): see",
		{Tenant: "public", Namespace: "defualt", Name: "x"}: "(nearest: public/default)",
		{Tenant: "acm", Namespace: "shop", Name: "x"}:       "namespace acm/shop does not exist: see",
	} {
		if err := m.CheckTopic(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", name, err, want)
		}
	}
}

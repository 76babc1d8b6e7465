package configstore_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// hanging is a store that takes calls and answers none, from the calls on that a
// test picks.
type hanging struct {
	*embedded.Memory
	left atomic.Int64 // calls that are answered still; below 0: all
}

func (*hanging) Name() string { return "the store at test:8500" }

func (h *hanging) answered(ctx context.Context) error {
	if h.left.Load() < 0 || h.left.Add(-1) >= 0 {
		return nil
	}
	h.left.Store(0)
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *hanging) Get(ctx context.Context, key string) (configstore.Document, error) {
	if err := h.answered(ctx); err != nil {
		return configstore.Document{}, err
	}
	return h.Memory.Get(ctx, key)
}

func (h *hanging) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	if err := h.answered(ctx); err != nil {
		return nil, err
	}
	return h.Memory.List(ctx, prefix)
}

func (h *hanging) Put(ctx context.Context, d configstore.Document) error {
	if err := h.answered(ctx); err != nil {
		return err
	}
	return h.Memory.Put(ctx, d)
}

// TestChangeWaitsOnceForAStoreThatHangs: every change, from whichever of its calls on
// the store is silent, ends within one wait, says which store does not answer, and has
// changed nothing.
func TestChangeWaitsOnceForAStoreThatHangs(t *testing.T) {
	const most = 20 * time.Second // of a change in the middle of which the store falls silent
	for name, change := range map[string]func(context.Context, *configstore.Writer) error{
		"register a region": func(ctx context.Context, w *configstore.Writer) error {
			_, err := w.AddRegion(ctx, configstore.Region{Name: "sa"}, 0)
			return err
		},
		"start a region": func(ctx context.Context, w *configstore.Writer) error {
			_, err := w.RegisterRegion(ctx, configstore.Region{Name: "sa", DataUUID: rhumb.NewUUID()}, 0)
			return err
		},
		"remove a region": func(ctx context.Context, w *configstore.Writer) error {
			return w.DeleteRegion(ctx, "ap")
		},
		"tenant": func(ctx context.Context, w *configstore.Writer) error {
			_, err := w.PutTenant(ctx, "other", func(*configstore.Tenant) error { return nil })
			return err
		},
		"namespace": func(ctx context.Context, w *configstore.Writer) error {
			return w.DeleteNamespace(ctx, "acme", "n")
		},
		"topic": func(ctx context.Context, w *configstore.Writer) error {
			_, err := w.CountDeletion(ctx, rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"})
			return err
		},
		"plan": func(ctx context.Context, w *configstore.Writer) error {
			f, err := configstore.ReadTopologyFile([]byte(`{"tenants":{"new":{}}}`))
			if err != nil {
				return err
			}
			_, err = w.PlanTopology(ctx, f, false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for calls := int64(0); ; calls++ {
				if done := hangAfter(t, calls, most, change); done {
					return // it needs no more calls than these
				}
			}
		})
	}
}

// hangAfter runs a change on a store that answers so many calls, and reports whether
// they were enough.
func hangAfter(t *testing.T, calls int64, most time.Duration, change func(context.Context, *configstore.Writer) error) (done bool) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		h := &hanging{Memory: a.store}
		h.left.Store(-1)
		v := openView(t, h, &configstore.MemoryKeeper{})
		before, began := a.store.Snapshot(), time.Now()
		h.left.Store(calls)
		err := change(t.Context(), v.Writer("test"))
		took := time.Since(began)
		if done = err == nil; done {
			return
		}
		if calls == 0 && took > 10*time.Second || took > most {
			t.Errorf("silent from call %d on: it took %s", calls, took)
		}
		if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "the store at test:8500 has not answered within 10s") {
			t.Errorf("silent from call %d on: %v (%v)", calls, err, rhumb.KindOf(err))
		}
		for key, d := range a.store.Snapshot() {
			if string(before[key].JSON) != string(d.JSON) && key != configstore.MeshKey { // a number may be lost
				t.Errorf("silent from call %d on: %s was changed", calls, key)
			}
		}
	})
	return done
}

// TestGivingUpIsNoFaultOfTheStore: who ends the request himself hears that, not that
// the store hangs.
func TestGivingUpIsNoFaultOfTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := &hanging{Memory: small(t).store}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := configstore.NewWriter(h, "test").PutTenant(ctx, "other", func(*configstore.Tenant) error { return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

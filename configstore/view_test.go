package configstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func openView(t *testing.T, s configstore.Store, k configstore.Keeper) *configstore.View {
	t.Helper()
	v, err := configstore.OpenView(t.Context(), configstore.ViewConfig{Store: s, Keeper: k, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// run runs the view until the function that it gives is called.
func run(t *testing.T, v *configstore.View) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

// small is a mesh of us, eu and ap with namespace acme/n over us and eu.
func small(t *testing.T) admin {
	a := newAdmin(t)
	a.register("us", "eu", "ap")
	a.ok(a.tenant("acme"))
	a.ok(a.mesh("acme", "n", "us", "eu"))
	return a
}

// put stores JSON behind the Writer's back, as another version of Rhumb does.
func (a admin) put(key, fields string) {
	a.t.Helper()
	var version uint64
	if d, err := a.store.Get(a.t.Context(), key); err == nil {
		version = d.Version
	}
	d, err := configstore.ParseDocument(key, fmt.Appendf(nil, `{"version":%d,"updated_at":"2026-01-02T03:04:05Z","updated_by":"newer"%s}`, version+1, fields))
	a.ok(err)
	a.ok(a.store.Put(a.t.Context(), d))
}

func TestViewShowsWhatIsInForce(t *testing.T) {
	a := small(t)
	topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}
	_, err := a.CountDeletion(t.Context(), topic)
	a.ok(err)
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	if got := v.Regions(); len(got) != 3 || got[0].Name != "us" || got[2].Number != 3 {
		t.Errorf("regions %+v", got)
	}
	if r, ok := v.RegionByNumber(2); !ok || r.Name != "eu" {
		t.Errorf("number 2 is %+v", r)
	}
	if _, ok := v.Region("moon"); ok {
		t.Error("an unregistered region is shown")
	}
	if n, ok := v.Namespace("acme", "n"); !ok || n.Deletes() != configstore.ScopeMesh || len(v.Namespaces()) != 1 {
		t.Errorf("namespace %+v", n)
	}
	if tp, ok := v.TopicDoc(topic); !ok || tp.Deletions != 1 || len(v.TopicDocs()) != 1 {
		t.Errorf("topic %+v", tp)
	}
	if _, ok := v.Tenant("acme"); !ok || len(v.Tenants()) != 1 {
		t.Error("no tenant")
	}
	if e, ok := v.Edge("acme", "n", "us", "eu"); !ok || e.Start != configstore.StartEarliest {
		t.Errorf("edge %+v", e)
	}
	if _, ok := v.Edge("acme", "n", "us", "ap"); ok {
		t.Error("an edge that no policy has")
	}
	a.ok(a.DeleteRegion(t.Context(), "ap"))
	a.ok(v.Refresh(t.Context()))
	if _, ok := v.RegionByNumber(3); ok || len(v.Regions()) != 2 {
		t.Error("a deleted region is shown")
	}
	if name, ok := v.NumberOwner(3); !ok || name != "ap" {
		t.Errorf("number 3 belonged to %q", name)
	}
}

// TestG85SilentWatchIsCaught runs under virtual time: a change that the watch does
// not tell of is in force within the interval of the re-read.
func TestG85SilentWatchIsCaught(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		synctest.Wait()
		a.ok(a.mesh("acme", "n", "us", "ap"))
		synctest.Wait()
		if len(v.EdgesTo("ap")) != 1 || v.Status().CaughtByReread != 0 {
			t.Fatalf("the watch did not tell: %v", v.Edges())
		}
		a.store.SetSilent(true)
		a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
		synctest.Wait()
		if len(v.Edges()) != 2 {
			t.Fatal("the watch is not silent: the test shows nothing")
		}
		pass(5 * time.Second)
		synctest.Wait()
		if st := v.Status(); len(v.Edges()) != 6 || st.CaughtByReread != 0 {
			t.Fatalf("after one interval: %v, %+v", v.Edges(), st)
		}
		pass(5 * time.Second) // the watch may have been a moment behind; now it was not
		synctest.Wait()
		if st := v.Status(); st.CaughtByReread != 1 {
			t.Fatalf("after two intervals: %+v", st)
		}
	})
}

// TestWatchThatIsAMomentBehindMissesNothing: a change that a read by time finds just
// before the watch tells of it is no fault of the watch.
func TestWatchThatIsAMomentBehindMissesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		synctest.Wait()
		for range 5 {
			a.store.SetSilent(true)
			a.ok(a.mesh("acme", "n", "us", "ap"))
			pass(5 * time.Second) // a read by time
			synctest.Wait()
			a.store.SetSilent(false)
			a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
			synctest.Wait()
		}
		pass(time.Minute)
		synctest.Wait()
		if st := v.Status(); st.CaughtByReread != 0 || len(v.Edges()) != 6 {
			t.Fatalf("%+v, %v", st, v.Edges())
		}
	})
}

// countingStore counts lists, and can hold them back.
type countingStore struct {
	configstore.Store
	lists atomic.Int64
	hold  chan struct{} // nil: none is held
}

func (s *countingStore) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	s.lists.Add(1)
	if s.hold != nil {
		<-s.hold
	}
	return s.Store.List(ctx, prefix)
}

// TestReadsAreShared: those that ask for a read while one is under way share the next
// one, also if the one that was to read it gives up; and each sees what was stored
// before it asked.
func TestReadsAreShared(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		s := &countingStore{Store: a.store}
		v := openView(t, s, &configstore.MemoryKeeper{})
		s.hold = make(chan struct{})
		before := s.lists.Load()
		ctx, giveUp := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = v.Refresh(t.Context()) }) // is under way
		synctest.Wait()
		wg.Go(func() {
			if v.Refresh(ctx) == nil {
				t.Error("a read that was given up is told as done")
			}
		})
		synctest.Wait()
		a.ok(a.mesh("acme", "n", "us", "ap"))
		for range 100 {
			wg.Go(func() {
				if err := v.Refresh(t.Context()); err != nil || len(v.EdgesTo("ap")) != 1 {
					t.Errorf("after its read: %v, %v", v.Edges(), err)
				}
			})
		}
		synctest.Wait()
		giveUp()
		synctest.Wait()
		close(s.hold)
		wg.Wait()
		if n := s.lists.Load() - before; n > 3 {
			t.Errorf("%d lists for 102 reads", n)
		}
	})
}

// TestWritesAreReadOnce: what a View's own writer stored is not read again because the
// watch tells of it.
func TestWritesAreReadOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		s := &countingStore{Store: a.store}
		v := openView(t, s, &configstore.MemoryKeeper{})
		lists := func(tenant rhumb.Tenant) int64 {
			before := s.lists.Load()
			if _, err := v.Writer("x").PutTenant(t.Context(), tenant, func(*configstore.Tenant) error { return nil }); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return s.lists.Load() - before
		}
		without := lists("u")
		defer run(t, v)()
		synctest.Wait()
		if with := lists("w"); with != without {
			t.Errorf("%d lists for a write that the watch tells of, %d without a watch", with, without)
		}
	})
}

// TestI5StoreDownForAnHour restarts the region while the store is down, with its
// last good copy in a file.
func TestI5StoreDownForAnHour(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		keeper := configstore.FileKeeper(filepath.Join(t.TempDir(), "last-good"))
		v := openView(t, a.store, keeper)
		a.store.SetDown(true)
		for range 2 {
			stop := run(t, v)
			pass(30 * time.Minute)
			synctest.Wait()
			st := v.Status()
			if st.State != configstore.StateStoreDown || st.Err == nil || len(v.Edges()) != 2 {
				t.Fatalf("%+v, %v", st, v.Edges())
			}
			stop()
			v = openView(t, a.store, keeper)
		}
		defer run(t, v)()
		a.store.SetDown(false)
		a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
		pass(10 * time.Second)
		synctest.Wait()
		if st := v.Status(); st.State != configstore.StateCurrent || len(v.Edges()) != 6 || time.Since(st.LastRead) > 5*time.Second {
			t.Fatalf("%+v, %v", st, v.Edges())
		}
	})
}

// TestH8StoreRestoredFromOldSnapshot: nothing rolls back, nothing is written, and
// the status names each key with both versions, until the highest copies are back.
func TestH8StoreRestoredFromOldSnapshot(t *testing.T) {
	a := small(t)
	old := a.store.Snapshot()
	a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
	a.ok(a.tenant("other"))
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	highest := a.store.Snapshot()
	a.store.Rollback(old)
	a.refused(v.Refresh(t.Context()), rhumb.KindForbidden, "went back")
	st := v.Status()
	reasons := []string{
		"the store has version 1, this region saw version 2",
		"the store has none, this region saw version 1",
	}
	if st.State != configstore.StateWentBack || len(st.Problems) != 2 || st.Problems[0].Reason != reasons[0] || st.Problems[1].Reason != reasons[1] {
		t.Fatalf("%+v", st)
	}
	_, err := v.Writer("x").PutTenant(t.Context(), "new", func(*configstore.Tenant) error { return nil })
	a.refused(err, rhumb.KindForbidden, "namespaces/acme/n", "tenants/other")
	if len(a.store.Snapshot()) != len(old) || len(v.Edges()) != 6 {
		t.Fatal("something was written or rolled back")
	}
	a.store.Rollback(highest)
	a.ok(v.Refresh(t.Context()))
	if st := v.Status(); st.State != configstore.StateCurrent || len(st.Problems) != 0 {
		t.Fatalf("%+v", st)
	}
}

// TestRefusedDocumentLeavesTheFormerInForce: a newer region stores what this
// version lacks.
func TestRefusedDocumentLeavesTheFormerInForce(t *testing.T) {
	a, keeper := small(t), &configstore.MemoryKeeper{}
	v := openView(t, a.store, keeper)
	key := configstore.NamespaceKey("acme", "n")
	for range 2 { // twice refused, the same is in force
		a.put(key, `,"topology":{"ring":["us","eu","ap"]},"transactions":{}`)
		a.ok(v.Refresh(t.Context()))
	}
	a.put("rhumb/v1/later/thing", "") // of a kind that this version does not know
	check := func(v *configstore.View) {
		t.Helper()
		a.ok(v.Refresh(t.Context()))
		st := v.Status()
		if st.State != configstore.StateCurrent || len(st.Problems) != 1 || st.Problems[0].Key != key || !strings.Contains(st.Problems[0].Reason, "transactions") {
			t.Fatalf("%+v", st)
		}
		if len(v.Edges()) != 2 {
			t.Fatalf("%v", v.Edges())
		}
	}
	check(v)
	a.refused(a.mesh("acme", "n", "us"), rhumb.KindUnsupported, "transactions") // not overwritten either
	v = openView(t, a.store, keeper)                                            // and after a restart
	check(v)
	a.put(key, `,"topology":{"full-mesh":["us","ap"]}`)
	a.ok(v.Refresh(t.Context()))
	if st := v.Status(); len(st.Problems) != 0 || len(v.EdgesTo("ap")) != 1 || len(v.Edges()) != 2 {
		t.Fatalf("%+v %v", st, v.Edges())
	}
}

// TestI4EdgesOutsideOfTenantAndMeshAreDropped breaks the rules that span
// documents, as two administrators at once can. TestG50: the neighbours stay.
func TestI4EdgesOutsideOfTenantAndMeshAreDropped(t *testing.T) {
	a := small(t)
	a.put(configstore.NamespaceKey("acme", "n"), `,"topology":{"full-mesh":["us","eu","ap","moon"]}`)
	a.put(configstore.TenantKey("acme"), `,"allowed_regions":["us","eu","moon"]`)
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	if got := v.Edges(); len(got) != 2 || got[0].From != "eu" || got[1].From != "us" {
		t.Fatalf("%v", got)
	}
	if st := v.Status(); len(st.Problems) != 2 {
		t.Fatalf("%+v", st.Problems)
	}
}

func TestKeeperThatFailsHoldsNoPolicyBack(t *testing.T) {
	a, keeper := small(t), &configstore.MemoryKeeper{}
	v := openView(t, a.store, keeper)
	keeper.SetError(errors.New("no space"))
	a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
	a.ok(v.Refresh(t.Context()))
	if st := v.Status(); len(v.Edges()) != 6 || st.KeepErr == nil {
		t.Fatalf("%+v", st)
	}
	keeper.SetError(nil)
	a.ok(v.Refresh(t.Context()))
	if st := v.Status(); st.KeepErr != nil {
		t.Fatalf("%+v", st)
	}
	a.store.SetDown(true)
	if v := openView(t, a.store, keeper); len(v.Edges()) != 6 {
		t.Fatalf("the copy has %v", v.Edges())
	}
}

// TestDamagedCopyIsAnError flips each byte of a copy and cuts it everywhere: a
// damaged copy is told, never taken for an absent one.
func TestDamagedCopyIsAnError(t *testing.T) {
	a := small(t)
	path := filepath.Join(t.TempDir(), "last-good")
	openView(t, a.store, configstore.FileKeeper(path))
	whole, err := os.ReadFile(path)
	a.ok(err)
	try := func(damaged []byte, what string, at int) {
		k := &configstore.MemoryKeeper{}
		a.ok(k.Save(damaged))
		_, err := configstore.OpenView(t.Context(), configstore.ViewConfig{Store: a.store, Keeper: k})
		if rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Fatalf("%s at %d: %v", what, at, err)
		}
	}
	for i := range whole {
		flipped := slices.Clone(whole)
		flipped[i] ^= 1
		try(flipped, "flip", i)
		if i > 0 {
			try(whole[:i], "cut", i)
		}
	}
}

// TestCrashWhileTheCopyIsSaved: what a crash leaves beside the copy is not read.
func TestCrashWhileTheCopyIsSaved(t *testing.T) {
	a := small(t)
	path := filepath.Join(t.TempDir(), "last-good")
	openView(t, a.store, configstore.FileKeeper(path))
	a.ok(os.WriteFile(path+".tmp", []byte("rhumb last good"), 0o600))
	a.store.SetDown(true)
	if v := openView(t, a.store, configstore.FileKeeper(path)); len(v.Edges()) != 2 {
		t.Fatalf("%v", v.Edges())
	}
}

// TestI5RandomHistories runs views and administrators through stores that go down,
// fall silent and go back, and checks after each step: no version ever falls, and
// a view that is current shows what the store has.
func TestI5RandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		bubble.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			a, keeper := small(t), &configstore.MemoryKeeper{}
			v := openView(t, a.store, keeper)
			stop := run(t, v)
			all := []rhumb.RegionName{"us", "eu", "ap"}
			backup, highest := a.store.Snapshot(), uint64(0)
			for step := range 60 {
				switch rng.IntN(8) {
				case 0:
					a.store.SetDown(rng.IntN(2) == 0)
				case 1:
					a.store.SetSilent(rng.IntN(2) == 0)
				case 2:
					backup = a.store.Snapshot()
				case 3:
					if rng.IntN(3) == 0 {
						a.store.Rollback(backup)
					}
				case 4:
					stop()
					v = openView(t, a.store, keeper)
					stop = run(t, v)
				default:
					w := a.Writer
					if rng.IntN(2) == 0 {
						w = v.Writer("region")
					}
					_, _ = w.PutNamespace(t.Context(), "acme", "n", func(n *configstore.Namespace) error {
						n.Topology = &configstore.Topology{FullMesh: all[:rng.IntN(4)]}
						return nil
					})
				}
				pass(time.Duration(rng.IntN(7000)) * time.Millisecond)
				synctest.Wait()
				n, _ := v.Namespace("acme", "n")
				if n.Version < highest {
					t.Fatalf("seed %d step %d: version fell from %d to %d", seed, step, highest, n.Version)
				}
				highest = n.Version
				if want := len(n.Topology.FullMesh); len(v.Edges()) != max(0, want*(want-1)) {
					t.Fatalf("seed %d step %d: %v shows as %v", seed, step, n.Topology, v.Edges())
				}
			}
			a.store.SetDown(false)
			pass(10 * time.Second)
			synctest.Wait()
			n, _ := v.Namespace("acme", "n")
			stored := a.store.Snapshot()[configstore.NamespaceKey("acme", "n")]
			if same := stored.Version == n.Version; v.Status().State == configstore.StateCurrent && !same {
				t.Fatalf("seed %d: current, but version %d is shown and %d stored", seed, n.Version, stored.Version)
			}
			stop()
		})
	}
}

// TestG74NewAddressIsPickedUp: a region that moved is seen by the others, and its
// version too.
func TestG74NewAddressIsPickedUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		other := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		changes := 0
		defer v.Subscribe(func() { changes++ })()
		_, err := a.RegisterRegion(t.Context(), configstore.Region{Name: "eu", Geo: []string{"new:7650"}}, 0)
		a.ok(err)
		synctest.Wait()
		if r, _ := v.Region("eu"); !slices.Equal(r.Geo, []string{"new:7650"}) || r.Version != 2 || changes != 1 {
			t.Fatalf("%+v after %d changes", r, changes)
		}
		if v.Status().Digest == other.Status().Digest {
			t.Fatal("a view that is behind has the same digest")
		}
		a.ok(other.Refresh(t.Context()))
		if v.Status().Digest != other.Status().Digest {
			t.Fatal("views of the same documents have other digests")
		}
	})
}

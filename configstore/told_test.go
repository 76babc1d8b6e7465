package configstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// settle has a View look at what it heard.
func settle() {
	pass(2 * time.Second)
	synctest.Wait()
}

// away gives the last good copy of a region that was stopped before the last changes of
// a mesh, and a region that saw them. The store is then as it was before them.
func away(t *testing.T, a admin) (behind *configstore.MemoryKeeper, ahead *configstore.View) {
	behind = &configstore.MemoryKeeper{}
	openView(t, a.store, behind)
	old := a.store.Snapshot()
	a.ok(a.mesh("acme", "n", "us", "eu", "ap"))
	a.ok(a.tenant("other"))
	ahead = openView(t, a.store, &configstore.MemoryKeeper{})
	a.store.Rollback(old)
	a.refused(ahead.Refresh(t.Context()), rhumb.KindForbidden, "went back")
	return behind, ahead
}

func (a admin) cannotWrite(v *configstore.View, is error, words ...string) {
	a.t.Helper()
	before := len(a.store.Snapshot())
	_, err := v.Writer("x").PutTenant(a.t.Context(), "new", func(*configstore.Tenant) error { return nil })
	a.refused(err, rhumb.KindForbidden, words...)
	if !errors.Is(err, is) || len(a.store.Snapshot()) != before {
		a.t.Fatalf("%v; %d documents, were %d", err, len(a.store.Snapshot()), before)
	}
}

// TestH8RegionThatWasAwayIsToldThatTheStoreWentBack: its own copy is as old as the store,
// so it sees nothing; a peer saw more. It says which documents, changes nothing, puts
// nothing back itself, and is well as soon as the store has them, whatever else is said.
func TestH8RegionThatWasAwayIsToldThatTheStoreWentBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		kept, ahead := away(t, a)
		v := openView(t, a.store, kept)
		defer run(t, v)()
		synctest.Wait()
		if st := v.Status(); st.State != configstore.StateCurrent || !v.Tell().Equal(configstore.Told{}) {
			t.Fatalf("it sees by itself: %+v", st)
		}
		for range 3 { // as often as the peer connects
			v.Hear("eu", ahead.Tell())
			settle()
			st := v.Status()
			if st.State != configstore.StateWentBack || len(st.Problems) != 2 || st.LastRead.IsZero() ||
				st.Problems[0].Reason != "region eu has seen version 2, the store has version 1" || st.Problems[1].Reason != "region eu has seen version 1, the store has none" {
				t.Fatalf("%+v", st)
			}
		}
		a.cannotWrite(v, configstore.ErrWentBack, "namespaces/acme/n: region eu has seen version 2", "tenants/other")
		if !v.Tell().Equal(configstore.Told{}) {
			t.Fatal("it repeats what it was told: nobody could take that back")
		}
		if done, err := v.Restore(t.Context(), "x", false); err != nil || len(done) != 0 {
			t.Fatalf("it puts back %v, %v", done, err)
		}
		if _, err := ahead.Restore(t.Context(), "x", false); err != nil {
			t.Fatal(err)
		}
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent || len(st.Problems) != 0 || st.Digest != ahead.Status().Digest {
			t.Fatalf("after all was put back: %+v", st)
		}
		if !ahead.Tell().Equal(configstore.Told{}) {
			t.Fatalf("the peer goes on telling %+v", ahead.Tell())
		}
		a.ok(v.Refresh(t.Context()))
		if _, err := v.Writer("x").PutTenant(t.Context(), "new", func(*configstore.Tenant) error { return nil }); err != nil {
			t.Fatal(err)
		}
	})
}

// TestToldRegionFollowsTheStoreAllTheSame: it has nothing better, and a store that somebody
// changed after it went back has the same versions with other content.
func TestToldRegionFollowsTheStoreAllTheSame(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		kept, ahead := away(t, a)
		v := openView(t, a.store, kept)
		defer run(t, v)()
		a.ok(a.mesh("acme", "n", "us", "ap")) // version 2 again, by who knew of nothing
		a.ok(a.tenant("third"))
		a.refused(ahead.Refresh(t.Context()), rhumb.KindForbidden, "same version with content")
		v.Hear("eu", ahead.Tell())
		settle()
		if n, _ := v.Namespace("acme", "n"); n.Version != 2 {
			t.Errorf("it has version %d", n.Version)
		}
		a.cannotWrite(v, configstore.ErrWentBack, "region eu has seen version 2 with other content than the store has")
		if _, err := ahead.Restore(t.Context(), "x", false); err != nil {
			t.Fatal(err)
		}
		settle()
		if n, _ := v.Namespace("acme", "n"); n.Version != 3 || v.Status().State != configstore.StateCurrent || len(v.Edges()) != 6 {
			t.Fatalf("version %d, %+v", n.Version, v.Status())
		}
	})
}

// TestPeerThatCannotReadTheStore: it has seen more, and cannot say which documents the
// store lacks; but how much it has seen.
func TestPeerThatCannotReadTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		kept, peer := &configstore.MemoryKeeper{}, &configstore.MemoryKeeper{}
		openView(t, a.store, kept)
		old := a.store.Snapshot()
		a.ok(a.tenant("other"))
		openView(t, a.store, peer)
		a.store.SetDown(true)
		blind := openView(t, a.store, peer)
		said := blind.Tell()
		if said.Since.IsZero() || said.Changes == 0 || len(said.Seen) != 0 {
			t.Fatalf("it tells %+v", said)
		}
		a.store.SetDown(false)
		v := openView(t, a.store, kept) // has all
		defer run(t, v)()
		v.Hear("eu", said)
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent {
			t.Fatalf("a store that has all went back: %+v", st)
		}
		a.store.Rollback(old)
		again := openView(t, a.store, &configstore.MemoryKeeper{}) // knows what the store has
		defer run(t, again)()
		again.Hear("eu", said)
		settle()
		a.cannotWrite(again, configstore.ErrWentBack, "changes of the mesh's documents and cannot read the store, which has ")
		again.Hear("eu", configstore.Told{}) // it can, and finds that nothing is missing
		settle()
		if st := again.Status(); st.State != configstore.StateCurrent {
			t.Fatalf("%+v", st)
		}
	})
}

// TestTalkativePeerCostsLittle: one that says something else a thousand times a second has
// the store read once in that time, and what it said last counts.
func TestTalkativePeerCostsLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		s := &countingStore{Store: a.store}
		v := openView(t, s, &configstore.MemoryKeeper{})
		defer run(t, v)()
		synctest.Wait()
		before := s.lists.Load()
		for i := range 10_000 {
			v.Hear("eu", configstore.Told{Since: time.Now(), Changes: uint64(10_000 - i)})
			pass(time.Millisecond)
		}
		if n := s.lists.Load() - before; n > 14 { // two of them by time
			t.Errorf("the store is read %d times in 10 s", n)
		}
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent {
			t.Errorf("%+v", st)
		}
	})
}

// TestToldRegionReadsABusyStoreOnceASecond: who was told that the store went back follows it,
// but does not list all documents for each of a thousand changes. When the word ends it is up
// to date, and follows at once again.
func TestToldRegionReadsABusyStoreOnceASecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		s := &countingStore{Store: a.store}
		v := openView(t, s, &configstore.MemoryKeeper{})
		defer run(t, v)()
		v.Hear("eu", configstore.Told{Since: time.Now(), Changes: 1 << 60})
		settle()
		before := s.lists.Load()
		for i := range 1000 {
			a.ok(a.tenant(rhumb.Tenant(fmt.Sprintf("t%d", i))))
			pass(10 * time.Millisecond)
		}
		settle()
		if n := s.lists.Load() - before; n > 16 { // some of them by time
			t.Errorf("the store is read %d times in 12 s", n)
		}
		st := v.Status()
		if _, ok := v.Tenant("t999"); !ok || st.State != configstore.StateWentBack || st.CaughtByReread != 0 {
			t.Errorf("it follows: %t, %+v", ok, st)
		}
		v.Hear("eu", configstore.Told{})
		settle()
		a.ok(a.tenant("last"))
		synctest.Wait()
		if _, ok := v.Tenant("last"); !ok || v.Status().State != configstore.StateCurrent {
			t.Errorf("it does not follow at once: %+v", v.Status())
		}
	})
}

// TestWordIsForgottenInTheReadThatEndsIt: the read that finds another region under the name
// of who said something does not count that word any more.
func TestWordIsForgottenInTheReadThatEndsIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		v.Hear("ap", configstore.Told{Since: time.Now(), Changes: 1 << 60})
		a.refused(v.Refresh(t.Context()), rhumb.KindForbidden, "ap")
		if _, err := a.RemoveRegion(t.Context(), "ap", true); err != nil {
			t.Fatal(err)
		}
		if _, err := a.AddRegion(t.Context(), configstore.Region{Name: "ap"}, 0); err != nil {
			t.Fatal(err)
		}
		if err := v.Refresh(t.Context()); err != nil || v.Status().State != configstore.StateCurrent {
			t.Errorf("the former's word still counts: %v, %+v", err, v.Status())
		}
	})
}

// TestWordEndsWithWhoSaidIt: of a region that left the mesh nothing counts.
func TestWordEndsWithWhoSaidIt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		lie := configstore.Told{Since: time.Now(), Changes: 1 << 60, Seen: []configstore.Sighting{{Key: configstore.TenantKey("acme"), Version: 99}}}
		v.Hear("ap", lie)
		v.Hear("stranger", lie)
		v.HearRemoval(configstore.Removal{By: "stranger", Name: "us", Number: 1, Version: 99})
		settle()
		if st := v.Status(); len(st.Problems) != 1 {
			t.Fatalf("%+v", st)
		}
		if _, err := v.Writer("x").RemoveRegion(t.Context(), "ap", true); err != nil {
			t.Fatal(err)
		}
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent {
			t.Fatalf("%+v", st)
		}
	})
}

// TestWhoSaysWhatIsWrongCanBeRemoved: through a region that was told, even if that one is
// said to be removed; and nothing else can be changed there, nor another region removed, nor
// any while the store went back by what the region itself has seen.
func TestWhoSaysWhatIsWrongCanBeRemoved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		old := a.store.Snapshot()
		us, _ := v.Region("us")
		v.Hear("eu", configstore.Told{Since: time.Now(), Changes: 1 << 60})
		v.HearRemoval(configstore.Removal{By: "ap", Name: "us", Number: us.Number, Version: 1 << 60, At: time.Now()})
		settle()
		a.cannotWrite(v, configstore.ErrRemoved, "says region ap", "stop this process", "'rhumb config status --region ap' and 'rhumb config restore'")
		if _, err := v.Writer("x").RemoveRegion(t.Context(), "us", true); !errors.Is(err, configstore.ErrRemoved) {
			t.Errorf("another region is removed: %v", err)
		}
		if _, err := v.Writer("x").DrainRegion(t.Context(), "ap", false); !errors.Is(err, configstore.ErrRemoved) {
			t.Errorf("it is drained: %v", err)
		}
		for _, name := range []rhumb.RegionName{"ap", "eu"} {
			if _, err := v.Writer("x").RemoveRegion(t.Context(), name, true); err != nil {
				t.Fatal(err)
			}
		}
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent {
			t.Fatalf("%+v", st)
		}
		a.register("sa")
		settle()
		v.Hear("sa", configstore.Told{Since: time.Now(), Changes: 1 << 60})
		a.store.Rollback(old)
		settle()
		if _, err := v.Writer("x").RemoveRegion(t.Context(), "sa", true); !errors.Is(err, configstore.ErrWentBack) {
			t.Errorf("removed in a store that went back: %v", err)
		}
	})
}

// TestWordOfAFormerRegion: the name under a new number is not held to it, even if both are
// seen at once.
func TestWordOfAFormerRegion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		us, _ := v.Region("us")
		for _, pause := range []time.Duration{2 * time.Second, 0} {
			v.Hear("ap", configstore.Told{Since: time.Now(), Changes: 1 << 60})
			v.HearRemoval(configstore.Removal{By: "ap", Name: "us", Number: us.Number, Version: 99, At: time.Now()})
			v.HearMember("eu")
			settle()
			if _, ok := v.Removal(); !ok || !slices.Equal(v.TakenBy(), []rhumb.RegionName{"eu"}) {
				t.Fatalf("%t, taken by %v", ok, v.TakenBy())
			}
			for _, name := range []rhumb.RegionName{"ap", "eu"} {
				if _, err := a.RemoveRegion(t.Context(), name, true); err != nil {
					t.Fatal(err)
				}
				pass(pause)
				if _, err := a.AddRegion(t.Context(), configstore.Region{Name: name}, 0); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			r, ok := v.Removal()
			if st := v.Status(); ok || len(v.TakenBy()) != 0 || st.State != configstore.StateCurrent {
				t.Errorf("after %v the former's word counts: %+v, taken by %v, %+v", pause, r, v.TakenBy(), st)
			}
		}
	})
}

// TestWhoTellsLosesTheStore: what it has seen and the store lost it goes on telling while it
// cannot read the store, or is offered another mesh's. How much it has seen says less: the
// store has changed meanwhile, by who knew of nothing.
func TestWhoTellsLosesTheStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		kept, ahead := away(t, a)
		v := openView(t, a.store, kept)
		defer run(t, v)()
		for i := range 5 {
			a.ok(a.moves("ap", fmt.Sprintf("ap.example:%d", 1000+i)))
		}
		settle()
		seen := ahead.Tell().Seen
		a.store.SetDown(true)
		for range 2 {
			if err := ahead.Refresh(t.Context()); err == nil || !slices.Equal(ahead.Tell().Seen, seen) || len(seen) == 0 {
				t.Fatalf("%v: it told %+v, and now %+v", err, seen, ahead.Tell())
			}
		}
		a.store.SetDown(false)
		v.Hear("eu", ahead.Tell())
		settle()
		a.cannotWrite(v, configstore.ErrWentBack, "tenants/other: region eu has seen version 1")
		if _, err := ahead.Restore(t.Context(), "x", false); err != nil {
			t.Fatal(err)
		}
		a.store.SetDown(true)
		if err := ahead.Refresh(t.Context()); err == nil || len(ahead.Tell().Seen) != 0 {
			t.Errorf("%v: the store has all, and it tells %+v", err, ahead.Tell())
		}
	})
}

// TestI5RandomWords runs three regions through stores that go back, fall silent and are
// changed, while each hears what the others say: late, twice, or what was said long ago.
// In a store that never went back nobody is ever told so. In one that did no region that
// was told writes. When all has been put back and said, all are current.
func TestI5RandomWords(t *testing.T) {
	for seed := range uint64(60) {
		bubble.Test(t, func(t *testing.T) { randomWords(t, seed) })
	}
}

// wordy is the state of randomWords.
type wordy struct {
	admin
	rng      *rand.Rand
	goesBack bool
	names    []rhumb.RegionName
	views    []*configstore.View
	stops    []func()
	keepers  []*configstore.MemoryKeeper
	backup   map[string]configstore.Document
	late     []func() // what was said once
}

func (w *wordy) open(i int) {
	w.views[i] = openView(w.t, w.store, w.keepers[i])
	w.stops[i] = run(w.t, w.views[i])
}

// step does one thing at random.
func (w *wordy) step() {
	i, j := w.rng.IntN(3), w.rng.IntN(3)
	switch w.rng.IntN(9) {
	case 0:
		w.backup = w.store.Snapshot()
	case 1:
		if w.goesBack {
			w.store.Rollback(w.backup)
		}
	case 2:
		w.stops[i]()
		w.open(i)
	case 3:
		w.store.SetDown(w.rng.IntN(2) == 0)
	case 4, 5:
		word := w.views[i].Tell()
		hear := func() {
			if i != j {
				w.views[j].Hear(w.names[i], word)
			}
		}
		hear()
		w.late = append(w.late, hear)
	case 6:
		if len(w.late) > 0 {
			w.late[w.rng.IntN(len(w.late))]()
		}
	default:
		_, err := w.views[i].Writer("region").PutNamespace(w.t.Context(), "acme", "n", func(n *configstore.Namespace) error {
			n.Topology = &configstore.Topology{FullMesh: w.names[:w.rng.IntN(4)]}
			return nil
		})
		if errors.Is(err, configstore.ErrWentBack) && !w.goesBack {
			w.t.Fatal(err)
		}
	}
}

func randomWords(t *testing.T, seed uint64) {
	w := &wordy{admin: small(t), rng: rand.New(rand.NewPCG(seed, 3)), goesBack: seed%2 == 0, names: []rhumb.RegionName{"us", "eu", "ap"},
		views: make([]*configstore.View, 3), stops: make([]func(), 3), keepers: make([]*configstore.MemoryKeeper, 3)}
	for i := range w.names {
		w.keepers[i] = &configstore.MemoryKeeper{}
		w.open(i)
	}
	w.backup = w.store.Snapshot()
	for range 80 {
		w.step()
		if w.rng.IntN(2) == 0 {
			pass(time.Duration(w.rng.IntN(7000)) * time.Millisecond)
			synctest.Wait()
		}
		for _, v := range w.views {
			if st := v.Status(); st.State == configstore.StateWentBack && !w.goesBack {
				t.Fatalf("seed %d: %+v", seed, st)
			}
		}
	}
	w.store.SetDown(false)
	for range 2 {
		for i, v := range w.views {
			if _, err := v.Restore(t.Context(), "operator", false); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for j, other := range w.views {
				if i != j {
					other.Hear(w.names[i], v.Tell())
				}
			}
		}
		pass(10 * time.Second)
		synctest.Wait()
	}
	for i, v := range w.views {
		if st := v.Status(); st.State != configstore.StateCurrent || st.Digest != w.views[0].Status().Digest {
			t.Fatalf("seed %d: region %d: %+v", seed, i, st)
		}
		w.stops[i]()
	}
}

// moves gives a region another address.
func (a admin) moves(name rhumb.RegionName, geo string) error {
	_, err := a.UpdateRegion(a.t.Context(), name, func(r *configstore.Region) error {
		r.Geo = []string{geo}
		return nil
	})
	return err
}

// TestRemovalIsProved: the highest version counts, whoever names it and how many say
// otherwise; without a store, too. It is withdrawn by who said it.
func TestRemovalIsProved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		defer run(t, v)()
		us, _ := v.Region("us")
		says := func(by rhumb.RegionName, version uint64) {
			v.HearRemoval(configstore.Removal{By: by, Name: "us", Number: us.Number, Version: version, At: time.Now()})
			settle()
		}
		is := func(what string, by rhumb.RegionName) {
			t.Helper()
			if r, ok := v.Removal(); ok != (by != "") || r.By != by {
				t.Fatalf("%s: %+v, %t", what, r, ok)
			}
		}
		a.ok(a.moves("us", "us.example:1")) // its document gets versions by who knows of nothing
		a.ok(a.moves("us", "us.example:2"))
		settle()
		us, _ = v.Region("us")
		says("eu", us.Version-1)
		is("an older document: the number is retired", "eu")
		says("eu", us.Version)
		is("the same version with other content", "eu")
		says("ap", us.Version+4)
		is("two who say so", "ap")
		says("eu", us.Version+4)
		if st := v.Status(); len(st.Problems) != 1 || !strings.HasPrefix(st.Problems[0].Reason, "regions ap and eu have seen version ") {
			t.Fatalf("%+v", st)
		}
		is("two who say the same", "ap")
		says("eu", us.Version)
		if st := v.Status(); st.State != configstore.StateWentBack || !slices.ContainsFunc(st.Problems, func(p configstore.Problem) bool {
			return p.Key == configstore.RegionKey("us") && strings.Contains(p.Reason, "by which region us, number 1, was removed")
		}) {
			t.Fatalf("%+v", st)
		}
		a.cannotWrite(v, configstore.ErrRemoved, "region us, number 1, left the mesh", "says region ap")
		v.HearMember("ap")
		is("one who takes it for a region", "eu")
		v.HearMember("eu")
		is("both take it for a region", "")
		settle()
		if st := v.Status(); st.State != configstore.StateCurrent {
			t.Fatalf("%+v", st)
		}
		a.store.SetDown(true)
		says("eu", us.Version+1)
		is("without a store", "eu")
		a.cannotWrite(v, configstore.ErrRemoved)
		a.store.SetDown(false)
		if _, err := a.RemoveRegion(t.Context(), "us", true); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		synctest.Wait()
		is("its own documents say so", "")
		if o, _ := v.Owner(us.Number); !o.Gone || o.Version != us.Version+1 || v.Status().State != configstore.StateCurrent {
			t.Fatalf("%+v, %+v", o, v.Status())
		}
	})
}

package configstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestI7RetiredNumberStaysRetired: in a store that went back, regions that had not seen a
// removal write versions of the removed region's document that are higher than that of its
// tombstone. Who saw the removal takes none of them, says so, and puts it back above them all;
// the word of a peer counts however high the versions have become. A name that comes back
// under a new number is none of that.
func TestI7RetiredNumberStaysRetired(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := small(t)
		kept := &configstore.MemoryKeeper{}
		openView(t, a.store, kept)
		before := a.store.Snapshot()
		tomb, err := a.RemoveRegion(t.Context(), "ap", true)
		a.ok(err)
		ahead := openView(t, a.store, &configstore.MemoryKeeper{})
		a.store.Rollback(before)
		for i, at := range []string{"ap.example:1", "ap.example:2", "ap.example:3"} {
			a.ok(a.moves("ap", at))
			a.refused(ahead.Refresh(t.Context()), rhumb.KindForbidden, "went back")
			if o, _ := ahead.Owner(tomb.Number); !o.Gone {
				t.Fatalf("after %d changes number %d is ap's again", i+1, tomb.Number)
			}
		}
		if st := ahead.Status(); st.State != configstore.StateWentBack || !strings.Contains(st.Problems[0].Reason, "this region saw the removal of that number") {
			t.Fatalf("%+v", st)
		}

		v := openView(t, a.store, kept) // of ap itself, or of who was away
		defer run(t, v)()
		settle()
		v.HearRemoval(configstore.Removal{By: "eu", Name: "ap", Number: tomb.Number, Version: tomb.Version, At: time.Now()})
		settle()
		if r, ok := v.Removal(); !ok || r.By != "eu" {
			t.Fatal("a word about a number is outdone by versions")
		}
		a.cannotWrite(v, configstore.ErrRemoved)

		done, err := ahead.Restore(t.Context(), "x", false)
		if err != nil || len(done) != 1 || done[0].Version != done[0].Had+1 || done[0].Had <= tomb.Version {
			t.Fatalf("%+v, %v", done, err)
		}
		settle()
		for name, of := range map[string]*configstore.View{"who saw it": ahead, "who did not": v} {
			if o, _ := of.Owner(tomb.Number); !o.Gone || of.Status().State != configstore.StateCurrent {
				t.Fatalf("%s: %+v, %+v", name, o, of.Status())
			}
		}
		again, err := a.RegisterRegion(t.Context(), configstore.Region{Name: "ap"}, 0)
		a.ok(err)
		settle()
		if r, ok := v.Region("ap"); !ok || r.Number != again.Number || again.Number <= tomb.Number || v.Status().State != configstore.StateCurrent {
			t.Fatalf("%+v, %+v", r, v.Status())
		}
		if r, ok := v.Removal(); ok {
			t.Fatalf("the new number is taken for the old one: %+v", r)
		}
	})
}

package compact

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// entry is a record of the model's log.
type entry struct {
	key    string
	at     rhumb.Offset
	tomb   bool
	life   uint32 // 1 and 2: lives that an edge carries; 0: one that none does
	opaque bool
}

// world is a log that is written, compacted and crashed upon at random, with all
// that was ever written beside it.
type world struct {
	t       *rapid.T
	log     []entry // what is left
	written []entry
	next    rhumb.Offset
	sent    rhumb.Offset // edges have carried what lies up to it
	state   State
	now     time.Time
	seen    map[rhumb.Offset]time.Time // when a pass first saw a tombstone
	budget  int64
}

func (w *world) record(e entry) Record {
	r := Record{Key: KeyOf([]byte(e.key)), Offset: e.at, Tombstone: e.tomb}
	if e.life != 0 && e.at > w.sent {
		r.Held = e.life
	}
	return r
}

// last gives the newest record of each key in a list, and of each key and life among
// those that an edge has to carry.
func (w *world) last(list []entry) (newest, held map[string]entry) {
	newest, held = map[string]entry{}, map[string]entry{}
	for _, e := range list {
		if e.opaque {
			continue
		}
		newest[e.key] = e
		if e.life != 0 && e.at > w.sent {
			held[fmt.Sprint(e.key, e.life)] = e
		}
	}
	return newest, held
}

const retention = time.Hour

// pass compacts, with batches of one record, and carries out as many decisions as
// there are before a crash.
func (w *world) pass(crash int) {
	before := slices.Clone(w.log)
	p := NewPass(NewKeys(w.budget), w.state.Horizon(w.now, retention))
	cleaned := w.state.Cleaned
	for _, e := range w.log {
		if e.at < w.state.Cleaned || e.opaque {
			continue
		}
		if !p.Note([]Record{w.record(e)}) {
			break
		}
		cleaned = e.at + 1
	}
	for _, e := range w.log {
		if e.at < w.state.Cleaned && !e.opaque {
			p.NoteExpired(w.record(e))
		}
	}
	var left []entry
	for i, e := range w.log {
		if i >= crash {
			left = append(left, w.log[i:]...)
			break
		}
		if e.opaque {
			p.Opaque()
			left = append(left, e)
		} else if p.Keep(w.record(e), e.at%11 == 0) {
			left = append(left, e)
		}
	}
	w.log = left
	w.check(before)
	if crash < len(before) {
		return
	}
	w.state = w.state.After(p.Outcome(cleaned), w.now)
	for _, e := range w.log {
		if _, ok := w.seen[e.at]; e.tomb && e.at < cleaned && !ok {
			w.seen[e.at] = w.now
		}
	}
	w.checkDone()
}

// check compares what is left with what was there before and what was ever written.
func (w *world) check(before []entry) {
	all, _ := w.last(w.written)
	newest, held := w.last(w.log)
	oldNewest, oldHeld := w.last(before)
	for key, want := range all {
		got, there := newest[key]
		switch {
		case there && got.at != want.at:
			w.t.Fatalf("key %s: the newest is that at %d, %d was written behind it: it came back, or is lost", key, got.at, want.at)
		case !there && !want.tomb:
			w.t.Fatalf("key %s: the value at %d is lost", key, want.at)
		}
		if !there && slices.ContainsFunc(w.log, func(e entry) bool { return e.opaque && e.key == key && e.at < want.at }) {
			w.t.Fatalf("key %s: the tombstone at %d went, and a batch that cannot be read here holds the key", key, want.at)
		}
		if old, was := oldNewest[key]; was && !there {
			if at, ok := w.seen[old.at]; !ok || w.now.Sub(at) < retention {
				w.t.Fatalf("key %s: its tombstone at %d went before its time", key, old.at)
			}
		}
	}
	for k, want := range oldHeld {
		if held[k].at != want.at {
			w.t.Fatalf("key and life %s: the record at %d went, and no edge has carried it", k, want.at)
		}
	}
}

// checkDone makes sure that a pass with room for all keys leaves no record that is
// superseded and not held.
func (w *world) checkDone() {
	if w.budget < 1<<20 {
		return
	}
	newest, _ := w.last(w.log)
	for _, e := range w.log {
		if n := newest[e.key]; !e.opaque && n.at > e.at && w.record(e).Held == 0 && e.at%11 != 0 && n.at < w.state.Cleaned && !w.wasHeld(e) {
			w.t.Fatalf("key %s: %d stayed, although %d is behind it", e.key, e.at, n.at)
		}
	}
}

// wasHeld tells of records that a pass could not let go at its time.
func (w *world) wasHeld(e entry) bool { return e.life != 0 }

func TestModelOfPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, state: NewState(), sent: rhumb.NoOffset, now: time.UnixMilli(1e12), seen: map[rhumb.Offset]time.Time{}}
		w.budget = rapid.SampledFrom([]int64{1, 1 << 20}).Draw(t, "budget")
		keys := rapid.IntRange(1, 6).Draw(t, "keys")
		if w.budget == 1 {
			keys = 2000 // more than the smallest table holds
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				n := rapid.IntRange(1, 12).Draw(t, "n")
				if w.budget == 1 {
					n *= 100
				}
				for range n {
					e := entry{key: fmt.Sprint(rapid.IntRange(0, keys-1).Draw(t, "key")), at: w.next,
						tomb: rapid.IntRange(0, 3).Draw(t, "tomb") == 0, life: uint32(rapid.IntRange(0, 2).Draw(t, "life")),
						opaque: w.budget > 1 && rapid.IntRange(0, 40).Draw(t, "opaque") == 0}
					w.next++
					w.log, w.written = append(w.log, e), append(w.written, e)
				}
			},
			"send": func(t *rapid.T) {
				w.sent = rhumb.Offset(rapid.Int64Range(int64(w.sent), int64(w.next-1)).Draw(t, "sent"))
			},
			"wait": func(t *rapid.T) { w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "m")) * time.Minute) },
			"pass": func(t *rapid.T) { w.t = t; w.pass(len(w.log)) },
			"crash": func(t *rapid.T) {
				w.t = t
				w.pass(rapid.IntRange(0, len(w.log)).Draw(t, "decisions"))
			},
		})
	})
}

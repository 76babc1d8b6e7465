package paths

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// model is a destination with some paths to one origin life, each with what it
// really has: the batches from floor+1 to head-1, one offset each. The destination
// knows only what it is told. The model holds each decision against the truth.
type model struct {
	t      *rapid.T
	choice Choice
	now    time.Time
	mark   rhumb.Offset
	paths  []*hop
	taken  *hop // whose session is open
	gapAt  time.Time
}

// hop is one path. The first one is the origin itself, if straight.
type hop struct {
	Route
	head, floor rhumb.Offset
	stuck       bool         // takes sessions and brings nothing
	told        rhumb.Offset // floor that it told since it is up, NoOffset if none
	offered     rhumb.Offset // head that it offered since it is up
}

func newModel(t *rapid.T) *model {
	m := &model{t: t, now: time.Unix(1e9, 0), mark: rhumb.NoOffset}
	for i := range rapid.IntRange(2, 4).Draw(t, "paths") {
		h := &hop{Route: Route{Peer: rhumb.RegionName(fmt.Sprintf("p%d", i)), Hops: 2 + i, Gets: true, Up: true, At: m.now}, floor: -1, told: -1}
		m.paths = append(m.paths, h)
	}
	if rapid.Bool().Draw(t, "straight") {
		m.paths[0].Hops = 1
	}
	m.update()
	return m
}

func (m *model) update() {
	var all []Route
	for _, h := range m.paths {
		all = append(all, h.Route)
	}
	m.choice.Update(all)
	if m.taken != nil && !m.taken.Up {
		m.taken = nil
	}
}

// end is how far the first path, which is the source of the others, is.
func (m *model) end() rhumb.Offset { return m.paths[0].head }

// step lets something happen to a path.
func (m *model) step() {
	t := m.t
	h := rapid.SampledFrom(m.paths).Draw(t, "path")
	switch rapid.IntRange(0, 11).Draw(t, "event") {
	case 0, 1:
		m.paths[0].head += rhumb.Offset(rapid.IntRange(1, 4).Draw(t, "records"))
	case 2, 3:
		h.head = max(h.head, m.end()-rhumb.Offset(rapid.IntRange(0, 2).Draw(t, "behind")))
	case 4:
		h.floor = max(h.floor, h.head-1-rhumb.Offset(rapid.IntRange(0, 3).Draw(t, "kept")))
	case 5:
		h.Up, h.At, h.told, h.offered = !h.Up, m.now, -1, 0
		m.update()
	case 6:
		h.stuck = !h.stuck
	case 7:
		m.now = m.now.Add(time.Duration(rapid.IntRange(0, 7).Draw(t, "minutes")) * time.Minute)
	default:
		m.round(rapid.Bool().Draw(t, "work"))
	}
}

// round lets the paths that are up offer, and the one that is taken work.
func (m *model) round(work bool) {
	m.now = m.now.Add(offerEvery)
	m.update()
	for _, h := range m.paths {
		if h.Up && h != m.taken && h.head > 0 {
			m.offer(h)
		}
		if work {
			m.work()
		}
	}
}

const offerEvery = 5 * time.Second

func (m *model) offer(h *hop) {
	u := m.taken
	h.offered = h.head
	d := m.choice.Offer(m.now, h.Peer, h.head, m.mark)
	if !d.Take {
		if d.Why == "" {
			m.t.Fatalf("%s is refused without a reason", h.Peer)
		}
		return
	}
	if u != nil && d.Leave != u.Peer {
		m.t.Fatalf("%s is taken, and %q left instead of %s", h.Peer, d.Leave, u.Peer)
	}
	if u != nil && u.told <= m.mark && h.head < m.mark+1 {
		m.t.Fatalf("%s is taken with head %d, behind the watermark %d, though %s works", h.Peer, h.head, m.mark, u.Peer)
	}
	if h.told > m.mark {
		m.mayGap(h, h.told)
	}
	m.taken = h
}

// work has the session that is open bring what is next, as far as there is anything.
func (m *model) work() {
	h := m.taken
	switch {
	case h == nil || h.stuck || h.head <= m.mark+1:
	case h.floor <= m.mark:
		m.mark++
		m.gapAt = time.Time{}
	default:
		h.told = h.floor
		if m.gapAt.IsZero() {
			m.gapAt = m.now
		}
		final, why := m.choice.Floor(m.now, h.Peer, h.floor, m.mark)
		if !final {
			if why == "" {
				m.t.Fatalf("a gap of %s waits for nobody", h.Peer)
			}
			m.taken = nil // the destination ends the session
			return
		}
		m.mayGap(h, h.floor)
		m.mark, m.gapAt = h.floor, time.Time{}
	}
}

// mayGap fails unless nobody may still have what is next, by the rules of the package
// comment, and nobody's gap ends earlier.
func (m *model) mayGap(h *hop, to rhumb.Offset) {
	for _, o := range m.paths {
		switch {
		case o.told > m.mark:
			if o.Up && o.told < to {
				m.t.Fatalf("%s has a gap up to %d, that of %s up to %d is taken", o.Peer, o.told, h.Peer, to)
			}
		case o.Hops == 1:
			m.t.Fatalf("a gap of %s behind %d is final, and the origin was not asked", h.Peer, m.mark)
		case o.Up && o.offered > m.mark+1:
			m.t.Fatalf("a gap of %s behind %d is final, and %s has up to %d", h.Peer, m.mark, o.Peer, o.offered)
		case m.now.Sub(m.gapAt) < Grace:
			m.t.Fatalf("a gap of %s behind %d is final after %s, and %s may have it", h.Peer, m.mark, m.now.Sub(m.gapAt), o.Peer)
		}
	}
}

// heal makes all paths work, and gives them time.
func (m *model) heal() {
	for _, h := range m.paths {
		if !h.Up {
			h.Up, h.At, h.told, h.offered = true, m.now, -1, 0
		}
		h.stuck, h.head = false, m.end()
	}
	m.update()
	for range 400 {
		m.round(true)
	}
}

// TestI3Choice: whatever happens to the paths, a gap is taken only when nobody may
// still have the records; and once all is well the destination has everything, over
// the shortest path.
func TestI3Choice(t *testing.T) { rapid.Check(t, checkChoice) }

// checkChoice tries many short histories in each case: some bugs show in a few of a
// thousand only, and one history costs microseconds.
func checkChoice(t *rapid.T) {
	for range 30 {
		checkHistory(t)
	}
}

func checkHistory(t *rapid.T) {
	m := newModel(t)
	for range rapid.IntRange(10, 120).Draw(t, "steps") {
		m.step()
	}
	m.heal()
	if m.mark != m.end()-1 {
		t.Fatalf("the watermark is %d, the origin's end %d: %+v", m.mark, m.end()-1, m.choice.Paths())
	}
	m.heal()
	if p := m.choice.Paths(); m.end() > 0 && m.choice.Used() != p[0].Peer {
		t.Fatalf("at the end %q is used: %+v", m.choice.Used(), p)
	}
}

// TestStalledPathIsLeft: a path that is taken and brings nothing is left for another
// one that has what is missing, and used again later.
func TestStalledPathIsLeft(t *testing.T) { checkStalled(t) }

func checkStalled(t rapid.TB) {
	var c Choice
	now := time.Unix(1e9, 0)
	c.Update([]Route{{Peer: "a", Hops: 1, Gets: true, Up: true, At: now}, {Peer: "b", Hops: 2, Gets: true, Up: true, At: now}})
	offer := func(peer rhumb.RegionName, head, mark rhumb.Offset, want bool) {
		t.Helper()
		if d := c.Offer(now, peer, head, mark); d.Take != want {
			t.Fatalf("%s, %s with head %d at %d: %+v", now.Sub(time.Unix(1e9, 0)), peer, head, mark, d)
		}
	}
	offer("a", 10, 4, true)
	offer("b", 10, 4, false)
	now = now.Add(Stall)
	offer("b", 10, 4, true) // a did not move
	offer("a", 12, 9, false)
	now = now.Add(Rest)
	offer("a", 12, 9, true) // it rested
	now = now.Add(Stall)
	offer("b", 12, 11, false) // nothing is missing
}

// Each change of the path has its time, the path before and a reason that names what
// was wrong with that; refusals and the path in use offering again are no change.
func TestMovesAreTold(t *testing.T) {
	now := time.Unix(1e9, 0)
	eu := Route{Peer: "eu", Hops: 2, Gets: true, Up: true, At: now}
	ap := Route{Peer: "ap", Hops: 2, Gets: true, Up: true, At: now}
	us := Route{Peer: "us", Hops: 1, Up: true, At: now}
	var c Choice
	c.Update([]Route{eu, ap})
	for i, s := range []struct {
		what       string
		routes     []Route // nil: as before
		peer       rhumb.RegionName
		head, mark rhumb.Offset
		want       Move
	}{
		{"the first", nil, "eu", 5, -1, Move{To: "eu", Why: "it was the first to offer this origin"}},
		{"another that is not better", nil, "ap", 5, 1, Move{}},
		{"the same again", nil, "eu", 6, 1, Move{}},
		{"the same after its link was down", []Route{{Peer: "eu", Hops: 2, Gets: true, Up: true, At: now.Add(time.Second)}, ap}, "eu", 6, 1, Move{}},
		{"the used one is down", []Route{{Peer: "eu", Hops: 2, Gets: true, At: now}, ap}, "ap", 7, 1, Move{From: "eu", To: "ap", Why: "region eu is not connected"}},
		{"brings nothing, seen", []Route{eu, ap}, "eu", 8, 2, Move{}},
		{"brings nothing for long", nil, "eu", 8, 2, Move{From: "ap", To: "eu", Why: "region ap brought nothing for 5s, and this one had more"}},
		{"a nearer one", []Route{eu, ap, us}, "us", 9, 7, Move{From: "eu", To: "us", Why: "it is nearer to the origin, and has caught up"}},
		{"the edge is taken away", []Route{eu, ap}, "eu", 9, 7, Move{From: "us", To: "eu", Why: "no edge leads over region us any more"}},
	} {
		now = now.Add(Stall)
		before := c.Moved()
		if s.routes != nil {
			c.Update(s.routes)
		}
		c.Offer(now, s.peer, s.head, s.mark)
		want := s.want
		if want.At = now; want.To == "" {
			want = before
		}
		if got := c.Moved(); got != want {
			t.Errorf("step %d, %s: %+v, want %+v", i, s.what, got, want)
		}
	}
}

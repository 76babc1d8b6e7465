package paths

import (
	"fmt"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/mutant"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Times of a choice.
const (
	// Stall is how long the path in use may bring nothing while another one offers
	// what is missing.
	Stall = 5 * time.Second
	// Rest is how long a path that stalled is not taken, if another one works; it
	// doubles up to RestMost.
	Rest     = 30 * time.Second
	RestMost = 10 * time.Minute
	// Settle is how long a path is up before it has surely offered what it has.
	Settle = 10 * time.Second
	// Grace bounds how long a gap waits for a path that is down, or that has no more
	// than this region.
	Grace = 5 * time.Minute
)

// Far is the number of hops of a path that cannot get the life by any edge.
const Far = 1 << 10

// Route is a path as policy and links have it now.
type Route struct {
	Peer rhumb.RegionName
	Hops int       // edges from the origin to here over it: 1 is straight from the origin
	Gets bool      // it can get more of the life without this region
	Up   bool      // there is a connection
	At   time.Time // since when it is up or down
}

// Choice is what a region knows of the paths of one origin life. The zero value is
// ready to use.
type Choice struct {
	routes []route
	used   rhumb.RegionName // empty: none yet
	mark   rhumb.Offset     // this region's watermark, when it was last looked at
	lack   time.Time        // since when somebody offers more while mark does not move
	gap    time.Time        // since when somebody says that what is next is gone
	moved  Move             // the last one
}

// Move says when and why a life began to come over another path.
type Move struct {
	At   time.Time
	From rhumb.RegionName // empty: it came over none before
	To   rhumb.RegionName
	Why  string // for people
}

// route is one path. Invariant: floor, head and asked are what it said itself.
type route struct {
	Route
	head  rhumb.Offset // first offset that it does not have
	floor rhumb.Offset // up to here, inclusive, it has nothing, unless below mark
	asked bool         // it offered since it is up
	rest  time.Time    // not before
	rests int
}

// Decision answers an offer.
type Decision struct {
	Take  bool
	Leave rhumb.RegionName // whose session ends because of it, empty if none
	Why   string           // if it is not taken, for people
}

// Update takes over which paths there are.
func (c *Choice) Update(now []Route) {
	old := c.routes
	c.routes = make([]route, 0, len(now))
	for _, n := range now {
		r := route{floor: rhumb.NoOffset}
		if i := slices.IndexFunc(old, func(o route) bool { return o.Peer == n.Peer }); i >= 0 {
			r = old[i]
			if !n.Up || !n.At.Equal(r.At) { // another process may answer, with another log
				r.asked, r.floor = false, rhumb.NoOffset
			}
		}
		r.Route = n
		c.routes = append(c.routes, r)
	}
	if c.find(c.used) == nil {
		c.used = ""
	}
}

func (c *Choice) find(peer rhumb.RegionName) *route {
	for i := range c.routes {
		if c.routes[i].Peer == peer {
			return &c.routes[i]
		}
	}
	return nil
}

// See notes where the watermark is.
func (c *Choice) See(mark rhumb.Offset) {
	if mark == c.mark {
		return
	}
	c.mark, c.lack, c.gap = mark, time.Time{}, time.Time{}
	if u := c.find(c.used); u != nil {
		u.rests = 0
	}
}

// Offer decides whether a session of peer, which has all up to head, exclusive, or
// says why not, is taken. mark is this region's watermark, applied and flushed.
func (c *Choice) Offer(now time.Time, peer rhumb.RegionName, head, mark rhumb.Offset) Decision {
	c.See(mark)
	r := c.find(peer)
	if r == nil {
		return Decision{Why: "no edge of the policy brings this origin from there"}
	}
	r.head, r.asked = head, true
	more := head > mark+1
	if more && c.lack.IsZero() {
		c.lack = now
	}
	if r.floor > mark && !mutant.On(mutant.FloorTaken) {
		final, why := c.final(now)
		if !final || c.lowest() != r {
			return Decision{Why: "it has nothing of what is next: " + why}
		}
		return c.take(now, r, "nobody has what is next, and it has what comes first behind that")
	}
	u := c.find(c.used)
	switch {
	case u == nil && c.moved.To != "" && c.moved.To != r.Peer:
		return c.take(now, r, fmt.Sprintf("no edge leads over region %s any more", c.moved.To))
	case u == nil || u == r:
		return c.take(now, r, "it was the first to offer this origin")
	case !u.Up:
		return c.take(now, r, fmt.Sprintf("region %s is not connected", u.Peer))
	case u.floor > mark:
		return c.take(now, r, fmt.Sprintf("region %s has nothing of what is next", u.Peer))
	case now.Before(r.rest):
		return Decision{Why: fmt.Sprintf("it stalled, and region %s brings this origin", u.Peer)}
	case r.Hops < u.Hops && (head >= mark+1 || mutant.On(mutant.ReturnsBehind)):
		return c.take(now, r, "it is nearer to the origin, and has caught up")
	case more && now.Sub(c.lack) >= Stall && !mutant.On(mutant.StallIgnored):
		u.rest = now.Add(min(Rest<<min(u.rests, 10), RestMost))
		u.rests++
		c.lack = time.Time{}
		return c.take(now, r, fmt.Sprintf("region %s brought nothing for %s, and this one had more", u.Peer, Stall))
	}
	return Decision{Why: fmt.Sprintf("region %s brings this origin", u.Peer)}
}

func (c *Choice) take(now time.Time, r *route, why string) Decision {
	d := Decision{Take: true}
	if c.used != r.Peer {
		d.Leave = c.used
	}
	if c.moved.To != r.Peer {
		c.moved = Move{At: now, From: c.moved.To, To: r.Peer, Why: why}
	}
	c.used = r.Peer
	return d
}

// Floor notes that peer has nothing of what is next up to an offset, and decides
// whether the gap up to there is final. If not, it says whom it waits for.
func (c *Choice) Floor(now time.Time, peer rhumb.RegionName, to, mark rhumb.Offset) (final bool, why string) {
	c.See(mark)
	r := c.find(peer)
	if r == nil {
		return false, "no edge of the policy brings this origin from there"
	}
	r.floor = to
	if to <= mark {
		return true, "" // nothing that is missing here
	}
	if c.gap.IsZero() {
		c.gap = now
	}
	if final, why = c.final(now); !final {
		return false, why
	}
	if l := c.lowest(); l.floor < to && !mutant.On(mutant.HighestGap) {
		return false, fmt.Sprintf("region %s may have some of it", l.Peer)
	}
	return true, ""
}

// final reports whether nobody may still have what comes right behind the watermark.
func (c *Choice) final(now time.Time) (ok bool, why string) {
	if mutant.On(mutant.GapAtOnce) {
		return true, ""
	}
	for i := range c.routes {
		r := &c.routes[i]
		wait := time.Duration(0)
		switch {
		case r.floor > c.mark:
			continue
		case r.Hops == 1 && !mutant.On(mutant.OriginNotAsked):
			return false, fmt.Sprintf("its origin %s may still have it", r.Peer)
		case r.Up && r.asked && r.head > c.mark+1:
			return false, fmt.Sprintf("region %s still has it", r.Peer)
		case !r.Up, r.Gets:
			wait = Grace - now.Sub(c.gap)
		default:
			wait = Settle - now.Sub(r.At)
		}
		if wait > 0 {
			return false, fmt.Sprintf("region %s may still have it, and is waited for up to %s", r.Peer, wait.Round(time.Second))
		}
	}
	return true, ""
}

// lowest gives the path that is up with the lowest floor above the watermark.
func (c *Choice) lowest() (low *route) {
	for i := range c.routes {
		r := &c.routes[i]
		if r.Up && r.floor > c.mark && (low == nil || r.floor < low.floor) {
			low = r
		}
	}
	return low
}

// Used gives the path in use, empty if none.
func (c *Choice) Used() rhumb.RegionName { return c.used }

// Moved gives the last move, the first choice included; zero if there was none.
func (c *Choice) Moved() Move { return c.moved }

// Waits says for whom a gap waits, empty if none does.
func (c *Choice) Waits(now time.Time) string {
	if c.gap.IsZero() {
		return ""
	}
	_, why := c.final(now)
	return why
}

// Path is what is known of one path.
type Path struct {
	Route
	Used  bool
	Asked bool
	Head  rhumb.Offset // first offset that it does not have, as it said last
	Floor rhumb.Offset // up to here it has nothing, NoOffset if it said nothing of the kind
	Rest  time.Time    // until then it is not taken while another one works
}

// Paths lists them, the nearest to the origin first.
func (c *Choice) Paths() []Path {
	out := make([]Path, 0, len(c.routes))
	for _, r := range c.routes {
		out = append(out, Path{Route: r.Route, Used: r.Peer == c.used, Asked: r.asked, Head: r.head, Floor: r.floor, Rest: r.rest})
	}
	slices.SortStableFunc(out, func(a, b Path) int { return a.Hops - b.Hops })
	return out
}

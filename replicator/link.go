package replicator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// link is what this region has to do with one other region, for as long as that
// one keeps its number. Connections come and go beneath it.
type link struct {
	// Fixed at construction.
	m          *Manager
	name       rhumb.RegionName
	number     rhumb.RegionNumber
	turns      [classes]*gate // whose batch goes next on lanes of a class
	pace       pace
	precedence precedence // of new data on the line
	// The link's share of the node's budgets: one with a destination that takes
	// everything and stores nothing must not keep the others from theirs.
	send    *gate                   // bytes read and not confirmed
	owing   *gate                   // of these, what debts have
	behind  *gate                   // and backlog
	receive *gate                   // bytes arrived and not stored
	stop    context.CancelCauseFunc // ends run; set when it starts

	counters counters
	// corrected is under mu.
	corrected corrected
	state     upState
	judging   *gate       // one connection at a time asks for the place of another
	passes    atomic.Bool // some edge may carry lives of other logs; see mayRelay

	cameAlone atomic.Int64 // bytes of receive: batches that came alone and are not answered

	mu sync.Mutex
	linkPolicy
	sources     map[sourceKey]*source          // lives of this region's logs
	base        map[rhumb.PartitionRef]*source // those that they have now
	flows       map[sourceKey]*flow
	standing    map[*flow]struct{} // whose life the peer takes over another path just now
	conn        *conn              // that sessions use, nil if none
	changed     chan struct{}      // closed and replaced when conn, geo or edges change
	health      linkHealth
	rivals      rivals
	data        rhumb.UUID         // the peer's data directory, as it said last
	limiters    map[scope]*limiter // of edges from here
	pauses      []Pause            // of edges from here
	theirPauses []Pause            // of edges to here, as the peer said last
	hint        int                // connections that were good when there last was one, 0: not known
	hintAt      time.Time          // of hint
	renewed     time.Time          // when a connection was last made anew because of another path
	brief       bool               // the last connection lived for less than briefLife
	toldUp      time.Time          // when it was last logged that the link is up
	toldOlder   time.Time          // and that a former life does not get on
}

// linkPolicy is what the policy says of a link.
type linkPolicy struct {
	geo     []string
	out, in map[scope]configstore.Edge
	gone    map[rhumb.RegionNumber]bool // regions that were removed; never changed
	// rebuilt: this region or the peer came back from nothing once. Others may hold
	// what it wrote before that.
	rebuilt bool
}

// upState is what is known of a link without its lock.
type upState struct {
	up atomic.Bool
	at atomic.Int64 // since when, Unix ns
}

func (u *upState) set(up bool) {
	u.up.Store(up)
	u.at.Store(time.Now().UnixNano())
}

// upSince tells whether the link has a connection, and since when that is so.
func (l *link) upSince() (at time.Time, up bool) {
	return time.Unix(0, l.state.at.Load()), l.state.up.Load()
}

// linkHealth is what Status says of a link.
type linkHealth struct {
	state    LinkState
	since    time.Time
	err      error
	errAt    time.Time
	connects uint64
}

// counters grow while the process runs.
type counters struct {
	sentBytes, sentBatches         atomic.Uint64
	receivedBytes, receivedBatches atomic.Uint64
	sentRecords, receivedRecords   atomic.Uint64
	rewinds                        atomic.Uint64
	confirmedBytes                 atomic.Uint64
	rebuilds                       atomic.Uint64
	diverged                       atomic.Uint64 // tries that found logs to have parted
	lostConnections                atomic.Uint64 // that had joined
	padding                        atomic.Uint64 // bytes
	alone                          atomic.Uint64 // batches that went without a session
	olderLooks                     atomic.Uint64 // of flows that wait for former lives
}

func newLink(m *Manager, r *configstore.Region) *link {
	turns := [classes]*gate{fresh: newGate(int64(m.cfg.Limits.Lanes)), debt: newGate(1), backlog: newGate(1)}
	if m.cfg.Limits.Rate > 0 {
		turns[fresh], turns[debt] = turns[backlog], turns[backlog] // what waits for the rate is ordered by one queue
	}
	l := &link{m: m, name: r.Name, number: r.Number, turns: turns, pace: pace{rate: m.cfg.Limits.Rate},
		send: newGate(m.cfg.Limits.SendBudget), owing: newGate(debtPart(m.cfg.Limits.SendBudget)), behind: newGate(backlogPart(m.cfg.Limits.SendBudget)),
		receive: newGate(m.cfg.Limits.ReceiveBudget), flows: map[sourceKey]*flow{}, standing: map[*flow]struct{}{},
		judging: newGate(1), changed: make(chan struct{}), health: linkHealth{state: LinkUnused, since: time.Now()}}
	l.state.set(false)
	return l
}

// run keeps the link connected for as long as it is needed.
func (l *link) run(ctx context.Context) {
	d := dialler{link: l, hello: newGate(1), pause: backoff{least: dialPause, most: dialPauseMost},
		rival: backoff{least: twicePause, most: twicePauseMost}}
	d.run(ctx)
}

// signal wakes who waits for a change. The caller holds mu.
func (l *link) signal() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wanted reports whether any edge leads to or from the peer. The caller holds mu.
func (l *link) wanted() bool { return len(l.out)+len(l.in) > 0 }

// setPolicy takes over addresses and edges, and ends what they no longer allow.
func (l *link) setPolicy(p linkPolicy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.linkPolicy = p
	l.notePasses()
	l.setRates(p.out)
	switch {
	case l.conn != nil:
		l.conn.policyChanged()
		if !l.wanted() {
			l.conn.end(errNoEdge)
		}
	case !l.wanted():
		l.become(LinkUnused)
	case l.health.state == LinkUnused:
		l.become(LinkDisconnected)
	}
	l.refresh()
	l.signal()
}

// become changes the state. The caller holds mu.
func (l *link) become(s LinkState) {
	if l.health.state != s {
		l.health.state, l.health.since = s, time.Now()
	}
}

// adopt makes c the connection of the link, unless the one that it has is to be
// kept: that which the region with the lower number dialled, if it lives. Of two
// that the same region dialled the newer is kept, since who dials again has
// lost the older one. Both sides so keep the same. A peer whose view of the
// policy is ahead is welcome, too: nothing flows before this side's allows it.
func (l *link) adopt(c *conn) error {
	l.m.welcome(l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.member(c)
	if old := l.conn; old != nil {
		if old.dialled != c.dialled && old.dialled == l.dialsFirst() && old.alive() {
			return errSuperseded
		}
		old.end(errSuperseded)
	}
	l.begin(c.data)
	if c.rebuilt && !l.rebuilt { // the policy that says so is just being taken over
		l.rebuilt = true
		l.notePasses()
		l.refresh()
	}
	l.conn, c.adopted, l.theirPauses = c, time.Now(), nil
	l.state.set(true)
	l.rivals.note(c.boot)
	l.become(LinkConnected)
	l.health.connects++
	l.signal()
	if c.adopted.Sub(l.toldUp) >= upTold {
		l.toldUp = c.adopted
		l.m.log.Info("link is up", "peer_region", l.name, "remote", c.qc.RemoteAddr().String(), "dialled", c.dialled,
			"connects", l.health.connects)
	}
	return nil
}

// begin notes the data directory that the peer runs on. What another one confirmed
// says nothing of this one, from the moment that its connection serves the link. The
// caller holds mu.
func (l *link) begin(data rhumb.UUID) {
	if data == l.data {
		return
	}
	known := !l.data.IsZero()
	l.data = data
	if !known {
		return
	}
	for _, f := range l.flows {
		f.unlearn()
	}
}

// upTold limits how often it is logged that a link is up: one that flaps counts
// its connections.
const upTold = 10 * time.Second

// dialsFirst reports whether this region is the one that dials at once.
func (l *link) dialsFirst() bool { return l.m.cfg.Self.Number < l.number }

// release is called when a connection ended.
func (l *link) release(c *conn, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return // another one serves the link already
	}
	l.conn = nil
	l.state.set(false)
	l.brief = time.Since(c.adopted) < briefLife
	if l.wanted() {
		l.become(LinkDisconnected)
	} else {
		l.become(LinkUnused)
	}
	l.signal()
	if !quiet(cause) {
		l.health.err, l.health.errAt = cause, time.Now()
		l.m.log.Warn("link is down", "peer_region", l.name, "err", cause)
	}
}

// failed notes that no connection came about.
func (l *link) failed(err error) {
	if quiet(err) {
		return
	}
	l.m.refuse(string(l.name), err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health.err, l.health.errAt = err, time.Now()
	var r *refusal
	if l.conn == nil && errors.As(err, &r) {
		l.become(LinkRefused)
	}
}

// edgeIn gives the edge on which the peer sends a topic here.
func (l *link) edgeIn(t rhumb.Topic) (configstore.Edge, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.in[l.m.scopeOf(t)]
	return e, ok
}

package replicator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// Pause says that an operator has stopped edges from this region to another one:
// nothing is sent until somebody resumes them. It is kept in the source region, so
// that it survives restarts and needs no configuration store, and is told to the
// peer. The backlog grows meanwhile.
type Pause struct {
	Peer  rhumb.RegionName
	Space rhumb.Space // zero: every namespace
	At    time.Time
	By    string
}

// Settings keeps what operators set at run time, durable in the region.
type Settings interface {
	Settings(scope string) map[string]string
	// AlterSettings replaces the settings of a scope by what change makes of them.
	AlterSettings(ctx context.Context, scope string, change func(map[string]string) (map[string]string, error)) error
}

// pauseScope is where pauses are kept among the region's settings: a key is
// "pause", the peer and, unless all are meant, the namespace, with spaces between.
const pauseScope = "links"

// pausedValue is the value of a setting. Number is the peer's when it was paused: a
// region that comes back under another number is another one.
type pausedValue struct {
	Number rhumb.RegionNumber `json:"number"`
	At     int64              `json:"at"`
	By     string             `json:"by"`
}

var errPaused = errors.New("replicator: an operator paused the edge")

func pauseKey(peer rhumb.RegionName, space rhumb.Space) string {
	key := "pause " + string(peer)
	if !space.IsZero() {
		key += " " + space.String()
	}
	return key
}

// Pause stops the edges from this region to a peer, of one namespace or, with the
// zero one, of all. What is under way is given up within moments, and may still leave;
// the destination's log knows what has come. Paused again, it stays as it is. Errors are of kind not found if no
// such region is known.
func (m *Manager) Pause(ctx context.Context, peer rhumb.RegionName, space rhumb.Space, by string) error {
	l := m.link(peer)
	if l == nil {
		return m.noLink(peer)
	}
	value, err := json.Marshal(pausedValue{Number: l.number, At: time.Now().UnixMilli(), By: by})
	if err != nil {
		return err
	}
	return m.alterPauses(ctx, func(all map[string]string) error {
		key := pauseKey(peer, space)
		if p, ok := readPause(key, all[key]); ok && p.number == l.number {
			return nil
		}
		if len(all) >= wire.MaxPauses {
			return rhumb.Errorf(rhumb.KindTooLarge, "%d edges are paused already: pause whole links, without a namespace", len(all))
		}
		all[key] = string(value)
		return nil
	})
}

// Resume lets paused edges go on. The zero namespace resumes all that are paused to
// the peer. Errors are of kind not found if nothing of the kind was paused.
func (m *Manager) Resume(ctx context.Context, peer rhumb.RegionName, space rhumb.Space) error {
	return m.alterPauses(ctx, func(all map[string]string) error {
		before := len(all)
		maps.DeleteFunc(all, func(key, value string) bool {
			p, ok := readPause(key, value)
			return ok && p.Peer == peer && (space.IsZero() || p.Space == space)
		})
		if len(all) == before {
			if m.link(peer) == nil {
				return m.noLink(peer)
			}
			return rhumb.Errorf(rhumb.KindNotFound, "nothing of that is paused: see 'rhumb link list'; a link that is paused as a whole is resumed as a whole")
		}
		return nil
	})
}

func (m *Manager) alterPauses(ctx context.Context, change func(map[string]string) error) error {
	err := m.cfg.Region.AlterSettings(ctx, pauseScope, func(before map[string]string) (map[string]string, error) {
		all := maps.Clone(before)
		if all == nil {
			all = map[string]string{}
		}
		return all, change(all)
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	links := m.sorted()
	m.mu.Unlock()
	pauses := m.pauses()
	for _, l := range links { // now, not when the manager looks again
		l.setPauses(pauses[l.name])
	}
	m.wake()
	return nil
}

// noLink is the refusal of a region to which there is no link, with those that may have
// been meant.
func (m *Manager) noLink(peer rhumb.RegionName) error {
	if self := m.cfg.Self.Name; peer == self {
		return rhumb.Errorf(rhumb.KindInvalid, "region %s is the one that is asked: name the region at the other end of the link, see 'rhumb link list --region %[1]s'", self)
	}
	m.mu.Lock()
	links := m.sorted()
	m.mu.Unlock()
	hint := nearest.Hint(string(peer), links, func(l **link) string { return string((*l).name) })
	return rhumb.Errorf(rhumb.KindNotFound, "there is no link to region %q%s: see 'rhumb link list'", peer, hint)
}

type readPauseResult struct {
	Pause
	number rhumb.RegionNumber
}

func readPause(key, value string) (readPauseResult, bool) {
	var v pausedValue
	parts := strings.Split(key, " ")
	if len(parts) < 2 || len(parts) > 3 || parts[0] != "pause" || json.Unmarshal([]byte(value), &v) != nil {
		return readPauseResult{}, false
	}
	p := readPauseResult{Pause{Peer: rhumb.RegionName(parts[1]), At: time.UnixMilli(v.At), By: v.By}, v.Number}
	if len(parts) == 3 {
		tenant, namespace, _ := strings.Cut(parts[2], "/")
		p.Space = rhumb.Space{Tenant: rhumb.Tenant(tenant), Namespace: rhumb.Namespace(namespace)}
	}
	return p, true
}

// pauses reads what is paused, by peer.
func (m *Manager) pauses() map[rhumb.RegionName][]readPauseResult {
	out := map[rhumb.RegionName][]readPauseResult{}
	for key, value := range m.cfg.Region.Settings(pauseScope) {
		if p, ok := readPause(key, value); ok {
			out[p.Peer] = append(out[p.Peer], p)
		}
	}
	return out
}

// setPauses takes over which of the link's edges are paused.
func (l *link) setPauses(all []readPauseResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var now []Pause
	for _, p := range all {
		if p.number == l.number {
			now = append(now, p.Pause)
		}
	}
	slices.SortFunc(now, func(a, b Pause) int { return cmp.Compare(a.Space.String(), b.Space.String()) })
	if slices.Equal(now, l.pauses) {
		return
	}
	l.pauses = now
	for _, f := range l.flows {
		l.settlePause(f)
	}
	if l.conn != nil {
		l.conn.control.tellPauses()
	}
}

// paused reports whether the edges of a namespace are, with those that its topics
// have of their own. The caller holds mu.
func (l *link) paused(s rhumb.Space) bool {
	return slices.ContainsFunc(l.pauses, func(p Pause) bool {
		return p.Space.IsZero() || p.Space == s
	})
}

// settlePause stops a flow, or lets it go on, as its edge says. The caller holds mu.
func (l *link) settlePause(f *flow) {
	paused := l.paused(f.source.topic.Space())
	switch {
	case paused && !f.paused:
		f.paused = true
		f.interrupt(errPaused)
		if !f.running {
			f.become(SessionPaused)
		}
	case !paused && f.paused:
		f.paused = false
		f.become(SessionDisconnected)
		l.queue(f)
	}
}

// leave notes that nobody works on the flow any more, and why.
func (f *flow) leave(ctx context.Context) {
	if errors.Is(context.Cause(ctx), errPaused) {
		f.become(SessionPaused)
		return
	}
	f.become(SessionDisconnected)
}

// onPauses takes over what the peer says that it has paused.
func (c *conn) onPauses(f *wire.Pauses) {
	now := make([]Pause, 0, len(f.List))
	for _, p := range f.List {
		now = append(now, Pause{Peer: c.link.m.cfg.Self.Name, Space: p.Space, At: time.UnixMilli(p.At), By: p.By})
	}
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.link.conn == c {
		c.link.theirPauses = now
	}
}

// writePauses tells the peer what is paused here.
func (c *conn) writePauses() error {
	c.link.mu.Lock()
	var f wire.Pauses
	for _, p := range c.link.pauses {
		f.List = append(f.List, wire.Pause{Space: p.Space, At: p.At.UnixMilli(), By: p.By})
	}
	c.link.mu.Unlock()
	return c.writer.Write(&f)
}

// tellPauses has the peer told.
func (c *control) tellPauses() {
	select {
	case c.pauses <- struct{}{}:
	default:
	}
}

package groups

import (
	"context"
	"fmt"
	"github.com/rhumbmq/rhumb/internal/mutant"
	"log/slog"
	"sync"
	"time"
)

// Coordinator keeps the groups that this node coordinates. Its methods may be
// called from any goroutine; answers come from any, and must not block.
type Coordinator struct {
	cfg   Config
	store Store
	log   *slog.Logger
	stats stats

	mu     sync.Mutex
	seats  map[Key]*seat
	closed bool
}

// seat is the place of a group in memory. It is taken when somebody asks for the
// group and given up when nothing would be lost by loading the group again.
type seat struct {
	key Key

	mu    sync.Mutex
	group *Group // nil: not loaded
	gone  bool   // given up: look again
	term  uint64 // that the group was loaded in
	timer *time.Timer
}

// New builds a coordinator; it starts nothing.
func New(cfg Config) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new group coordinator: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Coordinator{cfg: cfg, store: cfg.Store, log: cfg.Logger.With("component", "groups"), seats: map[Key]*seat{}}, nil
}

// Memory gives the bytes that members of all groups take.
func (c *Coordinator) Memory() int64 { return c.cfg.memory.used.Load() }

// Close answers all that wait, and whoever asks from then on, as a node that is
// not the coordinator does. Members stay in what is stored.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	seats := c.seats
	c.seats = map[Key]*seat{}
	c.mu.Unlock()
	for _, s := range seats {
		s.mu.Lock()
		s.leave(errClosed())
		s.mu.Unlock()
	}
}

// leave gives a seat up. The caller holds mu.
func (s *seat) leave(err error) {
	s.gone = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.group != nil {
		s.group.Abandon(err)
		s.group = nil
	}
}

// sit finds the seat of a group, with mu held.
func (c *Coordinator) sit(k Key) (*seat, error) {
	for {
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, errClosed()
		}
		s := c.seats[k]
		if s == nil {
			s = &seat{key: k}
			c.seats[k] = s
		}
		c.mu.Unlock()
		s.mu.Lock()
		if !s.gone {
			return s, nil
		}
		s.mu.Unlock()
	}
}

// with runs fn on a group, which it loads if it has to, and sees to what follows.
// An error is one of not having the group; fn did not run then.
func (c *Coordinator) with(k Key, fn func(g *Group, now time.Time)) error {
	s, err := c.sit(k)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	defer c.follow(s)
	now := time.Now()
	if err := c.load(s, now); err != nil {
		return err
	}
	fn(s.group, now)
	return nil
}

// load makes sure that the seat has the group as it is in this term.
func (c *Coordinator) load(s *seat, now time.Time) error {
	term, ok := c.store.Coordinates(s.key)
	if s.group != nil && (!ok || term != s.term) {
		s.group.Abandon(errElsewhere(s.key))
		s.group = nil
	}
	if !ok {
		return errElsewhere(s.key)
	}
	if s.group != nil {
		return nil
	}
	g, err := Load(now, s.key, &c.cfg, c.store.Group(s.key))
	if err != nil {
		c.log.Error("group cannot be loaded", "group", s.key.Group, "tenant", s.key.Tenant, "namespace", s.key.Namespace, "err", err)
		return err
	}
	s.group, s.term = g, term
	return nil
}

// follow does what a change of a group asks for: it hands out a write, sets the
// timer, and gives up the seat of a group with nothing in memory. The caller
// holds the seat's mu.
func (c *Coordinator) follow(s *seat) {
	g := s.group
	if g == nil || g.state == Dead || g.idle() {
		c.giveUp(s)
		return
	}
	c.startWrite(s)
	if !g.restart || mutant.On(mutant.TimerForgotten) && s.timer != nil {
		return
	}
	g.restart = false
	next := g.Next()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !next.IsZero() {
		s.timer = time.AfterFunc(time.Until(next), func() { c.tick(s, g) })
	}
}

func (c *Coordinator) giveUp(s *seat) {
	c.mu.Lock()
	if c.seats[s.key] == s {
		delete(c.seats, s.key)
	}
	c.mu.Unlock()
	s.leave(errElsewhere(s.key))
}

// tick is what the timer of a group calls.
func (c *Coordinator) tick(s *seat, g *Group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == g {
		g.Tick(time.Now())
		c.follow(s)
	}
}

// startWrite stores a group's state if it asks for that and no write of it is
// under way.
func (c *Coordinator) startWrite(s *seat) {
	g := s.group
	record, ok := g.TakeWrite()
	if !ok {
		return
	}
	c.store.StorePutGroup(s.key, record, func(err error) { go c.written(s, g, err) })
}

func (c *Coordinator) written(s *seat, g *Group, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		c.log.Warn("group was not stored", "group", s.key.Group, "err", err)
	}
	if s.group == g {
		g.Written(time.Now(), err)
		c.follow(s)
	}
}

// Join is [Group.Join] on the group of that key.
func (c *Coordinator) Join(k Key, req JoinRequest, reply func(JoinAnswer)) {
	reply = timed(&c.stats.joins, reply)
	err := c.with(k, func(g *Group, now time.Time) { g.Join(now, req, reply) })
	if err != nil {
		reply(JoinAnswer{Err: err, Member: req.Member, Generation: NoGeneration})
	}
}

// Sync is [Group.Sync] on the group of that key.
func (c *Coordinator) Sync(k Key, req SyncRequest, reply func(SyncAnswer)) {
	reply = timed(&c.stats.syncs, reply)
	if err := c.with(k, func(g *Group, now time.Time) { g.Sync(now, req, reply) }); err != nil {
		reply(SyncAnswer{Err: err})
	}
}

// Heartbeat is [Group.Heartbeat] on the group of that key.
func (c *Coordinator) Heartbeat(k Key, ref MemberRef) (err error) {
	if e := c.with(k, func(g *Group, now time.Time) { err = g.Heartbeat(now, ref) }); e != nil {
		return e
	}
	return err
}

// Leave is [Group.Leave] on the group of that key.
func (c *Coordinator) Leave(k Key, members []MemberRef) (errs []error, err error) {
	err = c.with(k, func(g *Group, now time.Time) { errs = g.Leave(now, members) })
	return errs, err
}

// Run looks at all groups now and then, until ctx ends: it loads those that have
// members, so that sessions of those that do not come back end, and forgets
// positions that nobody needs any more.
func (c *Coordinator) Run(ctx context.Context) error {
	t := time.NewTicker(c.cfg.SweepInterval)
	defer t.Stop()
	for {
		c.Sweep(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

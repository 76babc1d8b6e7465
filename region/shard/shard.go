package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Limits and their reasons.
const (
	// maxProposal is how many bytes of commands one entry carries, so that a
	// follower's acknowledgement of one does not wait for too many others.
	maxProposal = 1 << 20
	// maxMessage is how many bytes of entries one message between nodes carries.
	maxMessage = 1 << 20
	// maxApplying is how many bytes of entries are applied in one go. Raft's own
	// default is maxMessage, which was 15 % slower.
	maxApplying = 16 << 20
	// maxInflight is how many messages go to a follower before its answer.
	maxInflight = 256
	// maxInflightBytes is how many bytes of entries go to a follower before it.
	maxInflightBytes = 64 << 20
	// electionTicks is how many ticks a follower waits for its leader.
	electionTicks  = 10
	heartbeatTicks = 1
)

// DefaultKeep is how many bytes of applied entries are kept for followers that
// are late; a follower that is later gets a snapshot.
const DefaultKeep = 64 << 20

// Config says what one replica of a shard needs.
type Config struct {
	ID     rhumb.ShardID
	Region rhumb.RegionNumber
	// Node is this replica's Raft id, Voters the ids of all replicas that the
	// group starts with. Both are ignored by a group that has a configuration.
	Node   uint64
	Voters []uint64

	Storage Storage
	// Transport carries messages to other replicas; nil in a group of one.
	Transport Transport
	// Synced says that Storage.Save answers after the flush (durability fsync).
	Synced bool

	Budget *Budget // shared by the shards of a node; default: one of its own
	Keep   int64   // bytes of entries kept for late followers, default DefaultKeep
	Logger *slog.Logger

	// Refuse gives why the node takes no new data at the moment, nil if it does:
	// it is asked at the door for each batch.
	Refuse func() error
	// Changed is called on the shard's goroutine after topics changed, and after
	// leadership did. It must not block.
	Changed func()
}

// Shard is one replica of a Raft group and its state machine.
type Shard struct {
	// Fixed at construction.
	cfg    Config
	log    *slog.Logger
	single bool
	wake   chan struct{} // capacity 1: a signal that something waits
	done   chan struct{} // closed when Run has returned

	// Read by any goroutine.
	epoch   atomic.Uint64 // the Raft term
	renamed atomic.Bool   // some partition's log had another life before
	leading atomic.Bool   // leader, and the first entry of its term is applied
	flushed atomic.Uint64 // last entry on the disks of a majority, as far as known

	// Waiting for the shard's goroutine, under mu.
	mu       sync.Mutex
	requests []*request
	calls    []func()
	saves    []saved
	messages []*Message
	ticks    int
	closed   error

	// Owned by the shard's goroutine. Of m, see machine.
	m         *machine
	raft      *raft.RawNode
	term      uint64
	role      raft.StateType
	leader    uint64
	conf      *raftpb.ConfState
	confSaved bool // the state database has conf
	hard      hardState
	lead      leadership
	reads     readQueue
	flush     flushState
	keep      keptEntries
	snap      snapshots
	seen      uint64 // topicsSeen that Changed was told of
	results   []result
	failed    error
}

// saved is what the storage has done.
type saved struct {
	responses []*raftpb.Message
	err       error
}

// hardState is what the storage was given last of term and vote.
type hardState struct{ term, vote uint64 }

// Open recovers a replica from its storage. Nothing moves until Run.
func Open(cfg Config) (*Shard, error) {
	if cfg.Budget == nil {
		cfg.Budget = NewBudget(0)
	}
	if cfg.Keep <= 0 {
		cfg.Keep = DefaultKeep
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Shard{
		cfg: cfg, log: cfg.Logger.With("component", "shard", "shard", cfg.ID), wake: make(chan struct{}, 1), done: make(chan struct{}),
		m: newMachine(cfg.ID, cfg.Region),
	}
	if err := cfg.Storage.Tables(s.m.load); err != nil {
		return nil, fmt.Errorf("shard %d: read tables: %w", cfg.ID, err)
	}
	if err := s.m.loaded(); err != nil {
		return nil, err
	}
	s.m.index, s.m.term = cfg.Storage.Applied()
	s.flushed.Store(s.m.index)
	if err := s.openRaft(); err != nil {
		return nil, err
	}
	if !cfg.Synced {
		cfg.Storage.OnFlush(func(uint64) { s.signal() })
	}
	for _, p := range s.m.partitions {
		p.moved = true
		s.show(p, s.m.index)
	}
	return s, nil
}

func (s *Shard) openRaft() error {
	store := &raftStorage{Storage: s.cfg.Storage, s: s}
	_, conf, err := store.InitialState()
	if err != nil {
		return fmt.Errorf("shard %d: read raft state: %w", s.cfg.ID, err)
	}
	s.conf = conf
	s.single = len(conf.Voters) == 1 && len(conf.Learners) == 0 && len(conf.VotersOutgoing) == 0
	s.raft, err = raft.NewRawNode(&raft.Config{
		ID: s.cfg.Node, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks, Storage: store, Applied: s.m.index,
		AsyncStorageWrites: true, MaxSizePerMsg: maxMessage, MaxCommittedSizePerReady: maxApplying, MaxInflightMsgs: maxInflight, MaxInflightBytes: maxInflightBytes,
		CheckQuorum: true, PreVote: true, DisableProposalForwarding: true, Logger: raftLogger{s.log},
	})
	if err != nil {
		return fmt.Errorf("shard %d: start raft: %w", s.cfg.ID, err)
	}
	st := s.raft.BasicStatus()
	s.term, s.hard = st.GetTerm(), hardState{st.GetTerm(), st.GetVote()}
	s.epoch.Store(s.term)
	return nil
}

// ID gives the shard's number.
func (s *Shard) ID() rhumb.ShardID { return s.cfg.ID }

// Single reports whether the group has this voter only, and needs no ticks.
func (s *Shard) Single() bool { return s.single }

// Leading reports whether this node leads the shard and may answer for it.
func (s *Shard) Leading() bool { return s.leading.Load() }

// Run works until ctx ends or the replica cannot go on; then everything that
// waits fails, and it returns why.
func (s *Shard) Run(ctx context.Context) error {
	defer close(s.done)
	err := s.run(ctx)
	s.close(err)
	return err
}

func (s *Shard) run(ctx context.Context) (err error) {
	defer func() {
		// Raft panics where its storage fails; raftStorage has noted why.
		if s.failed != nil {
			_ = recover()
			err = s.failed
		}
	}()
	if s.single {
		if err := s.raft.Campaign(); err != nil {
			return fmt.Errorf("shard %d: campaign: %w", s.cfg.ID, err)
		}
	}
	s.signal()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		if err := s.turn(); err != nil {
			s.log.Error("shard stopped", "err", err)
			return err
		}
	}
}

// turn does all that waits. Calls and requests are taken when their turn has come, not
// before: if it ends early, close answers them.
func (s *Shard) turn() error {
	s.mu.Lock()
	saves, messages, ticks, calls := s.saves, s.messages, s.ticks, len(s.calls)
	s.saves, s.messages, s.ticks = nil, nil, 0
	s.mu.Unlock()

	for _, sv := range saves {
		if sv.err != nil {
			return rhumb.Errorf(rhumb.KindUnavailable, "shard %d: write the log: %w", s.cfg.ID, sv.err)
		}
		s.respond(sv.responses)
	}
	for range ticks {
		s.raft.Tick()
		s.tickSnapshots()
	}
	for _, m := range messages {
		s.receive(m)
	}
	if err := s.ready(); err != nil {
		return err
	}
	if s.snap.taken != nil && !s.snap.committing {
		s.giveUp() // Raft had no use for it: it caught up meanwhile
	}
	for range calls {
		s.nextCall()()
	}
	if err := s.ready(); err != nil {
		return err
	}
	s.mu.Lock()
	s.lead.waiting = append(s.lead.waiting, s.requests...)
	s.requests = nil
	s.mu.Unlock()
	if err := s.serve(); err != nil {
		return err
	}
	s.advanceFlushed()
	return s.failed
}

// nextCall takes the first of the calls that wait. There is one.
func (s *Shard) nextCall() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.calls[0]
	s.calls[0] = nil
	if s.calls = s.calls[1:]; len(s.calls) == 0 {
		s.calls = nil
	}
	return call
}

// Tick tells the replica that a tick has passed. Groups of one voter need none.
func (s *Shard) Tick() {
	s.mu.Lock()
	s.ticks++
	s.mu.Unlock()
	s.signal()
}

// Receive takes a message of another replica. It does not block; a message may
// be lost.
func (s *Shard) Receive(m *Message) {
	s.mu.Lock()
	if len(s.messages) < 4*maxInflight {
		s.messages = append(s.messages, m)
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Shard) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// enqueueData takes the bytes of a batch from the node's budget and queues it.
func (s *Shard) enqueueData(r *request) {
	if s.cfg.Refuse != nil {
		if err := s.cfg.Refuse(); err != nil {
			r.fail(err)
			return
		}
	}
	if !s.cfg.Budget.take(int64(r.size)) {
		r.fail(rhumb.Errorf(rhumb.KindUnavailable, "shard %d: the node's budget of bytes in flight is used up", s.cfg.ID))
		return
	}
	r.reserved = int64(r.size)
	s.enqueue(r)
}

func (s *Shard) enqueue(r *request) {
	s.mu.Lock()
	err := s.closed
	if err == nil {
		s.requests = append(s.requests, r)
	}
	s.mu.Unlock()
	if err != nil {
		s.fail(r, err)
		return
	}
	s.signal()
}

// fail answers a request with an error and gives its bytes back.
func (s *Shard) fail(r *request, err error) {
	s.cfg.Budget.give(r.reserved)
	r.reserved = 0
	r.fail(err)
}

// do has fn run on the shard's goroutine, soon.
func (s *Shard) do(fn func()) error {
	s.mu.Lock()
	err := s.closed
	if err == nil {
		s.calls = append(s.calls, fn)
	}
	s.mu.Unlock()
	s.signal()
	return err
}

// close fails all that waits and refuses what comes.
func (s *Shard) close(cause error) {
	err := rhumb.Errorf(rhumb.KindUnavailable, "shard %d is stopped", s.cfg.ID)
	if cause != nil {
		err = rhumb.Errorf(rhumb.KindUnavailable, "shard %d failed: %w", s.cfg.ID, cause)
	}
	s.failed = cause
	s.leading.Store(false)
	s.mu.Lock()
	s.closed = err
	requests, calls := s.requests, s.calls
	s.requests, s.calls = nil, nil
	s.mu.Unlock()
	s.abandon(err)
	for _, r := range requests {
		s.fail(r, err)
	}
	for _, call := range calls {
		call()
	}
	s.reads.fail(err)
	s.flush.fail(err)
	s.giveUp()
	s.endOffers()
	s.wakeAll()
}

// wakeAll signals the waiters of all partitions.
func (s *Shard) wakeAll() {
	for _, p := range s.m.partitions {
		p.view.mu.Lock()
		p.view.signal()
		p.view.mu.Unlock()
	}
}

package groups

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Defaults of Config; those that Kafka has are Kafka's.
const (
	DefaultInitialDelay           = 3 * time.Second
	DefaultMinSession             = 6 * time.Second
	DefaultMaxSession             = 30 * time.Minute
	DefaultMaxMembers             = 1000
	DefaultMaxGroupBytes          = 8 << 20
	DefaultMemory                 = 64 << 20
	DefaultMaxOffsetBytes         = 16 << 20
	DefaultOffsetMemory           = 128 << 20
	DefaultOffsetsRetention       = 7 * 24 * time.Hour
	defaultSweep                  = 10 * time.Minute
	leastSweep                    = time.Second
	newMemberWait                 = 5 * time.Minute // a member that nobody has answered yet, as in Kafka
	maxRebalance                  = time.Hour
	leastRebalance                = time.Millisecond
	maxProtocols                  = 64 // of one member
	maxInstanceID                 = 249
	memberOverhead          int64 = 512 // what a member takes besides what its client sent
)

// Key names a group: tenant, namespace, name.
type Key = region.GroupKey

// What a group's positions are; see package region.
type (
	OffsetKey    = region.OffsetKey
	OffsetCommit = region.OffsetCommit
	OffsetsUse   = region.OffsetsUse
)

// Store keeps what must survive. Writes to one group take place in the order of
// the calls; done is called once, perhaps before the call returns, and must not
// block.
type Store interface {
	// Coordinates gives the term in which this node is the group's coordinator,
	// false if it is not.
	Coordinates(Key) (term uint64, ok bool)
	// Group gives a group's state as it was stored, nil if there is none.
	Group(Key) []byte
	// Groups lists groups that have state or positions stored, in no order.
	Groups() []Key
	// Offsets gives all positions of a group.
	Offsets(Key) map[OffsetKey]OffsetCommit
	// OffsetsUse tells what positions take in memory: those that commits would add for
	// a group, all of the group, all of all groups.
	OffsetsUse(k Key, commits []OffsetCommit) OffsetsUse
	// StorePutGroup stores a group's state; empty state forgets it.
	StorePutGroup(k Key, state []byte, done func(error))
	// StoreOffsets stores positions, all or none.
	StoreOffsets(k Key, commits []OffsetCommit, done func(error))
	// StoreDeleteOffsets forgets positions, of these only those that were stored
	// before a time (ms since 1970) if it is not 0.
	StoreDeleteOffsets(k Key, offsets []OffsetKey, before int64, done func(error))
	// StoreDeleteGroup forgets state and positions of a group.
	StoreDeleteGroup(k Key, done func(error))
}

// Config says how groups work.
type Config struct {
	// Store keeps state and positions. Required.
	Store Store
	// Logger gets a line for what an operator would note. Default: none.
	Logger *slog.Logger
	// InitialDelay is how long a group that was empty waits for more members
	// before its first assignment; each one that comes makes it wait again, up
	// to the rebalance timeout. Default 3 s, negative for none.
	InitialDelay time.Duration
	// MinSession and MaxSession bound the session timeout that members may ask
	// for. Defaults 6 s and 30 min.
	MinSession, MaxSession time.Duration
	// MaxMembers bounds the members of one group. Default 1000.
	MaxMembers int
	// MaxGroupBytes bounds what the members of one group gave: names, metadata
	// and assignments. Default 8 MiB, at most 12 MiB.
	MaxGroupBytes int64
	// Memory bounds the same over all groups of the node. Default 64 MiB.
	Memory int64
	// MaxOffsetBytes bounds what the positions of one group take in memory, about 300
	// bytes each. Default 16 MiB.
	MaxOffsetBytes int64
	// OffsetMemory bounds the same over all groups. Default 128 MiB.
	OffsetMemory int64
	// OffsetsRetention is how long positions are kept when a group is empty, and
	// when its members read other topics. Default 7 days, negative for ever.
	OffsetsRetention time.Duration
	// SweepInterval is how often positions are looked at for that. Default 10
	// min, or half of OffsetsRetention if that is less.
	SweepInterval time.Duration

	memory     *budget
	rebalances *atomic.Int64 // that ended in a new generation
	newID      func(prefix string) string
}

// maxGroupBytes keeps a group's state below what a command of the log may hold.
const maxGroupBytes = 12 << 20

// Validate checks the fields against each other.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.Store == nil:
		return rhumb.Errorf(rhumb.KindInvalid, "groups: no store")
	case c.MinSession < 0 || c.MaxSession < 0 || c.MaxMembers < 0 || c.MaxGroupBytes < 0 || c.Memory < 0 || c.MaxOffsetBytes < 0 || c.OffsetMemory < 0 || c.SweepInterval < 0:
		return rhumb.Errorf(rhumb.KindInvalid, "groups: negative limit")
	case d.MinSession > d.MaxSession:
		return rhumb.Errorf(rhumb.KindInvalid, "groups: session timeouts from %v to %v", d.MinSession, d.MaxSession)
	case d.MaxGroupBytes > maxGroupBytes:
		return rhumb.Errorf(rhumb.KindInvalid, "groups: %d bytes in one group, at most %d", d.MaxGroupBytes, maxGroupBytes)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&c.InitialDelay, DefaultInitialDelay)
	c.InitialDelay = max(c.InitialDelay, 0)
	orDefault(&c.MinSession, DefaultMinSession)
	orDefault(&c.MaxSession, DefaultMaxSession)
	orDefault(&c.MaxMembers, DefaultMaxMembers)
	orDefault(&c.MaxGroupBytes, DefaultMaxGroupBytes)
	orDefault(&c.Memory, DefaultMemory)
	orDefault(&c.MaxOffsetBytes, DefaultMaxOffsetBytes)
	orDefault(&c.OffsetMemory, DefaultOffsetMemory)
	orDefault(&c.OffsetsRetention, DefaultOffsetsRetention)
	sweep := defaultSweep
	if c.OffsetsRetention > 0 {
		sweep = min(sweep, max(c.OffsetsRetention/2, leastSweep))
	}
	orDefault(&c.SweepInterval, sweep)
	c.memory = &budget{limit: c.Memory}
	c.rebalances = new(atomic.Int64)
	if c.newID == nil {
		c.newID = func(prefix string) string { return prefix + "-" + rhumb.NewUUID().String() }
	}
	return c
}

func orDefault[T int | int64 | time.Duration](field *T, otherwise T) {
	if *field == 0 {
		*field = otherwise
	}
}

// budget counts bytes that all groups of a node hold.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take takes n bytes if they are free.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// force takes n bytes that are there already: what was loaded.
func (b *budget) force(n int64) { b.used.Add(n) }

func (b *budget) give(n int64) { b.used.Add(-n) }

package groups

import (
	"maps"
	"slices"
	"sync"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// disk is a Store in memory: writes apply in order, at once or when it is told,
// or fail. What was not applied is lost when it crashes.
type disk struct {
	mu      sync.Mutex
	states  map[Key][]byte
	offsets map[Key]map[OffsetKey]OffsetCommit
	queue   []write
	slow    bool
	failing error
	term    uint64
	away    bool // another node coordinates
	writes  int  // of groups' states
}

type write struct {
	apply func()
	done  func(error)
}

func newDisk() *disk {
	return &disk{states: map[Key][]byte{}, offsets: map[Key]map[OffsetKey]OffsetCommit{}, term: 1}
}

func (d *disk) do(apply func(), done func(error)) {
	d.mu.Lock()
	err := d.failing
	if err == nil && d.slow {
		d.queue = append(d.queue, write{apply, done})
		d.mu.Unlock()
		return
	}
	if err == nil {
		apply()
	}
	d.mu.Unlock()
	done(err)
}

// run applies the first n writes that wait.
func (d *disk) run(n int) {
	for range n {
		d.mu.Lock()
		if len(d.queue) == 0 {
			d.mu.Unlock()
			return
		}
		w := d.queue[0]
		d.queue = d.queue[1:]
		w.apply()
		d.mu.Unlock()
		w.done(nil)
	}
}

// set makes the disk slow or fail; what waits is applied if it is neither.
func (d *disk) set(slow bool, failing error) {
	d.mu.Lock()
	d.slow, d.failing = slow, failing
	n := len(d.queue)
	d.mu.Unlock()
	if !slow {
		d.run(n)
	}
}

// crash loses what was not applied; nothing of this life is stored any more.
func (d *disk) crash(int) medium {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newDisk()
	next.states, next.offsets, next.term, next.slow = maps.Clone(d.states), d.offsets, d.term+1, d.slow
	d.queue, d.failing = nil, errDisk
	return next
}

func (d *disk) topic() rhumb.UUID { return rhumb.UUID{1} }

func (d *disk) close() {}

func (d *disk) Coordinates(Key) (uint64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.term, !d.away
}

func (d *disk) Group(k Key) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.states[k])
}

func (d *disk) Groups() []Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := map[Key]bool{}
	for k := range d.states {
		keys[k] = true
	}
	for k := range d.offsets {
		keys[k] = true
	}
	return slices.Collect(maps.Keys(keys))
}

func (d *disk) Offsets(k Key) map[OffsetKey]OffsetCommit {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.offsets[k])
}

// OffsetsUse: each position takes 300 bytes.
func (d *disk) OffsetsUse(k Key, commits []OffsetCommit) (u OffsetsUse) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, offsets := range d.offsets {
		u.Count += int64(len(offsets))
	}
	for _, c := range commits {
		if _, ok := d.offsets[k][c.Key()]; !ok {
			u.More += 300
		}
	}
	u.All, u.Group = u.Count*300, int64(len(d.offsets[k]))*300
	return u
}

func (d *disk) StorePutGroup(k Key, state []byte, done func(error)) {
	d.do(func() {
		d.writes++
		d.states[k] = slices.Clone(state)
		if len(state) == 0 {
			delete(d.states, k)
		}
	}, done)
}

func (d *disk) StoreOffsets(k Key, commits []OffsetCommit, done func(error)) {
	d.do(func() {
		if d.offsets[k] == nil {
			d.offsets[k] = map[OffsetKey]OffsetCommit{}
		}
		for _, c := range commits {
			d.offsets[k][c.Key()] = c
		}
	}, done)
}

func (d *disk) StoreDeleteOffsets(k Key, offsets []OffsetKey, before int64, done func(error)) {
	d.do(func() {
		for _, o := range offsets {
			if before == 0 || d.offsets[k][o].At < before {
				delete(d.offsets[k], o)
			}
		}
		if len(d.offsets[k]) == 0 {
			delete(d.offsets, k)
		}
	}, done)
}

func (d *disk) StoreDeleteGroup(k Key, done func(error)) {
	d.do(func() { delete(d.states, k); delete(d.offsets, k) }, done)
}

var testKey = Key{Tenant: "public", Namespace: "default", Group: "g"}

var errDisk = rhumb.Errorf(rhumb.KindUnavailable, "the disk says no")

package compact

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Key stands for a record's key: the first 16 bytes of its SHA-256. Two keys that
// share them would be taken for one; nobody can make such a pair.
type Key [16]byte

// KeyOf gives what a key is known by.
func KeyOf(key []byte) Key {
	sum := sha256.Sum256(key)
	return Key(sum[:16])
}

// Sum is [KeyOf] for keys that come in pieces, one key after the other.
type Sum struct {
	hash hash.Hash
	buf  []byte
}

// NewSum makes a Sum.
func NewSum() *Sum { return &Sum{hash: sha256.New()} }

// Write implements io.Writer: the next piece of the key.
func (s *Sum) Write(b []byte) (int, error) { return s.hash.Write(b) }

// Begin forgets what was written.
func (s *Sum) Begin() { s.hash.Reset() }

// Key gives what the key that was written is known by.
func (s *Sum) Key() Key {
	s.buf = s.hash.Sum(s.buf[:0])
	return Key(s.buf[:16])
}

// of gives the key's place for one life alone.
func (k Key) of(held uint32) Key {
	low := binary.LittleEndian.Uint64(k[:])
	binary.LittleEndian.PutUint64(k[:], low^uint64(held)*0x9e3779b97f4a7c15)
	return k
}

const (
	slotSize   = 24
	firstSlots = 1 << 10
	olderSeen  = 1 // in a slot's val
)

// Keys is a table from keys to the newest offset. It grows with what it holds, up to
// a budget; it belongs to one goroutine.
type Keys struct {
	slots []slot
	used  int
	most  int // slots
}

// slot holds newest+1 shifted by one, and in the lowest bit whether an older record
// was seen; zero is empty.
type slot struct {
	key Key
	val uint64
}

// NewKeys makes a table that takes at most budget bytes, also while it grows.
func NewKeys(budget int64) *Keys {
	k := &Keys{most: firstSlots}
	for int64(k.most)*slotSize*3 <= budget { // twice as many, beside the present ones
		k.most *= 2
	}
	return k
}

// Reset empties the table and lets go of its memory.
func (k *Keys) Reset() { k.slots, k.used = nil, 0 }

// Room tells if n more keys fit.
func (k *Keys) Room(n int) bool { return k.used+n <= k.most/4*3 }

// Len is the number of keys.
func (k *Keys) Len() int { return k.used }

func (k *Keys) find(key Key) *slot {
	n := uint64(len(k.slots))
	if n == 0 {
		return nil
	}
	for i := binary.LittleEndian.Uint64(key[:]) & (n - 1); ; i = (i + 1) & (n - 1) {
		if s := &k.slots[i]; s.val == 0 || s.key == key {
			return s
		}
	}
}

// newest gives a key's newest offset.
func (k *Keys) newest(key Key) (at rhumb.Offset, s *slot) {
	s = k.find(key)
	if s == nil || s.val == 0 {
		return rhumb.NoOffset, nil
	}
	return rhumb.Offset(s.val>>1) - 1, s
}

// put notes an offset of a key; an older one than is known changes nothing. The
// caller has asked for room.
func (k *Keys) put(key Key, at rhumb.Offset) {
	if len(k.slots) == 0 || k.used+1 > len(k.slots)/4*3 {
		k.grow()
	}
	s := k.find(key)
	if s.val == 0 {
		s.key = key
		k.used++
	}
	s.val = max(s.val, uint64(at+1)<<1)
}

func (k *Keys) grow() {
	old := k.slots
	k.slots = make([]slot, max(firstSlots, 2*len(old)))
	for i := range old {
		if old[i].val != 0 {
			*k.find(old[i].key) = old[i]
		}
	}
}

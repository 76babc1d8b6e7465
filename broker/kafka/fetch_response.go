package kafka

import (
	"encoding/binary"
	"net"

	"github.com/rhumbmq/rhumb/broker"
)

// fetchAnswer is what a Fetch response says.
type fetchAnswer struct {
	version int16
	code    int16
	session int32
	parts   []fetchPart
}

type fetchPart struct {
	part   *sessionPart
	answer *broker.FetchAnswer
	code   int16
}

// Versions of Fetch at which its encoding changes.
const (
	fetchWithLogStart  = 5
	fetchWithSessions  = 7
	fetchWithPreferred = 11
	fetchFlexible      = 12
)

// noReplica says that the client should go on reading here.
const noReplica = -1

// encodeFetch writes a Fetch response by hand, because the stored batches go
// out as they are: they are buffers between those that are written here, or places
// in files.
func encodeFetch(a fetchAnswer) (net.Buffers, []placed) {
	e := fetchEncoder{fetchAnswer: a, compact: a.version >= fetchFlexible, buf: make([]byte, 0, 64+64*len(a.parts))}
	e.int32(0) // throttle time
	if a.version >= fetchWithSessions {
		e.int16(a.code)
		e.int32(a.session)
	}
	groups := a.topics()
	e.length(len(groups))
	for _, g := range groups {
		e.topic(g)
	}
	e.tags()
	e.cut()
	return e.out, e.placed
}

// topics groups the parts by topic, in the order in which topics come first.
func (a *fetchAnswer) topics() [][]fetchPart {
	var groups [][]fetchPart
	at := map[partKey]int{}
	for _, p := range a.parts {
		key := p.part.key
		key.partition = 0
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

// fetchEncoder collects buffers: bytes that it writes, cut wherever a stored
// batch comes between.
type fetchEncoder struct {
	fetchAnswer
	compact bool
	out     net.Buffers
	placed  []placed
	buf     []byte
	start   int // what of buf is not in out yet
}

func (e *fetchEncoder) topic(parts []fetchPart) {
	key := parts[0].part.key
	if e.version >= fetchWithIDs {
		e.buf = append(e.buf, key.id[:]...)
	} else {
		e.string(key.topic)
	}
	e.length(len(parts))
	for _, p := range parts {
		e.partition(p)
	}
	e.tags()
}

func (e *fetchEncoder) partition(p fetchPart) {
	state := p.answer.State
	e.int32(p.part.key.partition)
	e.int16(p.code)
	e.int64(int64(state.End)) // high watermark
	e.int64(int64(state.End)) // last stable offset
	if e.version >= fetchWithLogStart {
		e.int64(int64(state.LogStart))
	}
	e.length(0) // aborted transactions
	if e.version >= fetchWithPreferred {
		e.int32(noReplica)
	}
	e.length(p.answer.Bytes)
	if p.answer.Bytes > 0 {
		e.cut()
		for _, b := range p.answer.Batches {
			if b.Place != nil {
				e.placed = append(e.placed, placed{after: len(e.out), place: b.Place})
				continue
			}
			e.out = append(e.out, b.Batch)
		}
	}
	e.tags()
}

// cut ends the buffer that is being written. Appending to buf later may move
// it, but never changes what was cut off.
func (e *fetchEncoder) cut() {
	if len(e.buf) > e.start {
		e.out = append(e.out, e.buf[e.start:len(e.buf):len(e.buf)])
		e.start = len(e.buf)
	}
}

func (e *fetchEncoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// length writes the length of an array or of bytes, which is not null.
func (e *fetchEncoder) length(n int) {
	if e.compact {
		e.buf = binary.AppendUvarint(e.buf, uint64(n)+1)
		return
	}
	e.int32(int32(n))
}

func (e *fetchEncoder) string(s string) {
	if e.compact {
		e.length(len(s))
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func (e *fetchEncoder) tags() {
	if e.compact {
		e.buf = append(e.buf, 0)
	}
}

package groups

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A group's state as it is stored; integers are varints, strings and bytes have
// their length in front of them:
//
//	byte    version, 1
//	byte    flags: 1 = the members were in the middle of a rebalance
//	varint  generation
//	varint  since when it is empty, ms since 1970; 0 if it has members
//	string  protocol type, protocol, member id of the leader
//	uvarint number of members, and for each
//	        string member id, instance id, client id, host
//	        varint session timeout, rebalance timeout, ms
//	        bytes  assignment
//	        uvarint number of protocols, and for each: string name, bytes metadata
//
// What follows belongs to a later version and is skipped. Sessions and what
// members wait for are not stored.
const (
	recordVersion     = 1
	recordRebalancing = 1
)

// record encodes what has to survive: a rebalance that is not complete yet as
// complete if its assignments are staged, since that is what the write is for.
// Members that were told nothing yet are left out: they come again.
func (g *Group) record() []byte {
	b := make([]byte, 0, 64+g.bytes)
	var flags byte
	if g.state == PreparingRebalance || g.state == CompletingRebalance && g.staged == nil {
		flags |= recordRebalancing
	}
	b = append(b, recordVersion, flags)
	b = binary.AppendVarint(b, int64(g.generation))
	since := g.since
	if g.state != Empty {
		since = 0
	}
	b = binary.AppendVarint(b, since)
	b = putString(b, g.kind)
	b = putString(b, g.protocol)
	b = putString(b, g.leader)
	told := slices.DeleteFunc(slices.Clone(g.roster.list), func(m *member) bool { return m.fresh })
	b = binary.AppendUvarint(b, uint64(len(told)))
	for _, m := range told {
		assignment := m.assignment
		if g.staged != nil {
			assignment = g.staged[m.id]
		}
		b = m.record(b, assignment)
	}
	return b
}

func (m *member) record(b, assignment []byte) []byte {
	for _, s := range [...]string{m.id, m.instance, m.clientID, m.host} {
		b = putString(b, s)
	}
	b = binary.AppendVarint(b, m.session.Milliseconds())
	b = binary.AppendVarint(b, m.limit.Milliseconds())
	b = putString(b, assignment)
	b = binary.AppendUvarint(b, uint64(len(m.protocols)))
	for _, p := range m.protocols {
		b = putString(b, p.Name)
		b = putString(b, p.Metadata)
	}
	return b
}

func putString[S ~string | ~[]byte](b []byte, s S) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Load makes a group of its record. Its members' sessions begin now; a group that
// was in the middle of a rebalance waits for all of them to join again.
func Load(now time.Time, key Key, cfg *Config, record []byte) (*Group, error) {
	g := NewGroup(key, cfg)
	if len(record) == 0 {
		return g, nil
	}
	r := recordReader{b: record}
	if version := r.byte(); version != recordVersion {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "group %s: state of version %d needs a newer reader", key.Group, version)
	}
	flags := r.byte()
	g.generation = int32(r.between(0, math.MaxInt32))
	g.since = r.varint()
	g.kind, g.protocol, g.leader = string(r.bytes()), string(r.bytes()), string(r.bytes())
	for range r.count(7) {
		m := r.member()
		if r.bad || g.roster.byID[m.id] != nil || m.id == "" || m.instance != "" && g.roster.byInstance[m.instance] != nil {
			r.fail()
			break
		}
		g.roster.add(m)
		g.bytes += m.size()
		g.touch(m, now)
	}
	if r.bad {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "group %s: state of %d bytes cannot be read", key.Group, len(record))
	}
	g.cfg.memory.force(g.bytes)
	g.stored, g.restart = true, true
	switch {
	case g.roster.len() == 0:
		g.state, g.protocol, g.leader = Empty, "", ""
	case flags&recordRebalancing != 0 || !g.common(g.protocol):
		g.state, g.joinEnd = PreparingRebalance, now.Add(g.limit())
	default:
		g.state = Stable
	}
	return g, nil
}

func (r *recordReader) member() *member {
	m := &member{id: string(r.bytes()), instance: string(r.bytes()), clientID: string(r.bytes()), host: string(r.bytes())}
	m.session = time.Duration(r.between(0, int64(24*time.Hour/time.Millisecond))) * time.Millisecond
	m.limit = time.Duration(r.between(0, int64(maxRebalance/time.Millisecond))) * time.Millisecond
	m.assignment = r.bytes()
	for range r.count(2) {
		m.protocols = append(m.protocols, Protocol{string(r.bytes()), r.bytes()})
	}
	return m
}

// recordReader takes values off the front of a record. After the first one that
// does not fit it gives zeros.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) fail() { r.bad, r.b = true, nil }

func (r *recordReader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *recordReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *recordReader) between(least, most int64) int64 {
	v := r.varint()
	if v < least || v > most {
		r.fail()
		return 0
	}
	return v
}

// bytes gives a part of the record, nil if it is empty.
func (r *recordReader) bytes() []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) {
		r.fail()
		return nil
	}
	r.b = r.b[size:]
	out := r.b[:n:n]
	r.b = r.b[n:]
	if n == 0 {
		return nil
	}
	return out
}

// count reads a number of items of at least size bytes each.
func (r *recordReader) count(size int) int {
	n, used := binary.Uvarint(r.b)
	if used <= 0 || n > uint64((len(r.b)-used)/size) {
		r.fail()
		return 0
	}
	r.b = r.b[used:]
	return int(n)
}

// want has the group's state stored; after, if any, is called when it is.
func (g *Group) want(after func(now time.Time, err error)) {
	g.write.wanted = true
	if after != nil {
		g.write.after = append(g.write.after, after)
	}
}

// TakeWrite gives the state that is to be stored now, if any; Written must follow.
func (g *Group) TakeWrite() ([]byte, bool) {
	w := &g.write
	if !w.wanted || w.busy || g.state == Dead {
		return nil, false
	}
	w.wanted, w.busy = false, true
	w.taken, w.after = w.after, nil
	w.ghosts, g.ghosts = g.ghosts, map[string]bool{}
	return g.record(), true
}

func (g *Group) isGhost(instance string) bool { return g.ghosts[instance] || g.write.ghosts[instance] }

// TryAgain asks for a write that failed and that nothing else will ask for.
func (g *Group) TryAgain() {
	if g.write.owed {
		g.write.owed = false
		g.want(nil)
	}
}

// Written says what became of a write.
func (g *Group) Written(now time.Time, err error) {
	w := &g.write
	taken := w.taken
	if err != nil {
		maps.Copy(g.ghosts, w.ghosts)
	}
	w.busy, w.taken, w.ghosts = false, nil, nil
	g.stored = g.stored || err == nil
	for _, after := range taken {
		after(now, err)
	}
	w.owed = err != nil && g.state == Empty
	g.progress(now)
}

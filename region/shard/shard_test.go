package shard

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// solo is a shard of one voter.
type solo struct {
	*Shard
	t    *testing.T
	disk *memDisk
	stop func()
}

func startSolo(t *testing.T, disk *memDisk, change func(*Config)) *solo {
	t.Helper()
	cfg := Config{ID: 3, Region: 7, Node: 1, Voters: []uint64{1}, Storage: disk, Synced: disk.lazy == 0}
	if change != nil {
		change(&cfg)
	}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if err := s.Run(ctx); err != nil {
			t.Log("shard ended: ", err)
		}
	}()
	n := &solo{Shard: s, t: t, disk: disk}
	n.stop = func() { cancel(); <-s.done }
	t.Cleanup(n.stop)
	synctest.Wait()
	return n
}

var soloTopic = rhumb.Topic{Tenant: "t", Namespace: "n", Name: "orders"}

func (n *solo) partition(topic byte) rhumb.PartitionID {
	n.t.Helper()
	id, life, err := n.CreatePartition(context.Background(), PartitionSpec{TopicID: rhumb.UUID{topic}, Topic: soloTopic})
	if err != nil || life.IsZero() {
		n.t.Fatal(err)
	}
	return id
}

// batch makes a record batch of the right shape; body makes its CRC differ.
func batch(count int, body string, change func(*codec.BatchHeader)) ([]byte, codec.BatchHeader) {
	b := make([]byte, codec.BatchHeaderSize, codec.BatchHeaderSize+len(body))
	h := codec.BatchHeader{Count: int32(count), LastOffsetDelta: int32(count - 1), ProducerID: codec.NoProducer, ProducerEpoch: -1, BaseSequence: -1}
	if change != nil {
		change(&h)
	}
	b = append(b, body...)
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[35:], uint64(h.MaxTimestamp))
	be.PutUint64(b[43:], uint64(h.ProducerID))
	be.PutUint16(b[51:], uint16(h.ProducerEpoch))
	be.PutUint32(b[53:], uint32(h.BaseSequence))
	be.PutUint32(b[57:], uint32(h.Count))
	be.PutUint32(b[17:], codec.Checksum(b[21:]))
	h, err := codec.CheckBatch(b)
	if err != nil {
		panic(err)
	}
	return b, h
}

func sequenced(pid int64, epoch int16, first int32) func(*codec.BatchHeader) {
	return func(h *codec.BatchHeader) { h.ProducerID, h.ProducerEpoch, h.BaseSequence = pid, epoch, first }
}

func (n *solo) append(id rhumb.PartitionID, count int, body string, change func(*codec.BatchHeader)) AppendResult {
	c := n.appendLater(id, count, body, change)
	return <-c
}

func (n *solo) appendLater(id rhumb.PartitionID, count int, body string, change func(*codec.BatchHeader)) chan AppendResult {
	b, h := batch(count, body, change)
	c := make(chan AppendResult, 1)
	n.Append(id, AppendRequest{Batch: b, Header: h}, func(r AppendResult) { c <- r })
	return c
}

// origin is a log of another region, of which batches are sent.
type origin struct {
	life  rhumb.Life
	end   rhumb.Offset
	last  rhumb.Offset
	chain uint64
}

func newOrigin(b byte) *origin { return &origin{life: rhumb.Life{b}, last: rhumb.NoOffset} }

func (o *origin) next(count int, body string) LinkBatch {
	b, h := batch(count, body, nil)
	last := o.end + rhumb.Offset(count) - 1
	o.chain = codec.NextChain(o.chain, o.end, last, h.CRC)
	e := codec.Envelope{Region: 9, Life: o.life, First: o.end, Last: last, Prev: o.last, Chain: o.chain, AppendTime: 1, Count: uint32(count)}
	o.end, o.last = last+1, last
	return LinkBatch{e, b}
}

func (l LinkBatch) copied() LinkBatch {
	l.Batch = append([]byte(nil), l.Batch...)
	return l
}

func (n *solo) link(id rhumb.PartitionID, b LinkBatch) chan LinkResult {
	c := make(chan LinkResult, 1)
	n.AppendLink(id, b.copied(), func(r LinkResult) { c <- r })
	return c
}

func (n *solo) skip(id rhumb.PartitionID, o *origin, s dedup.Skip) chan LinkResult {
	c := make(chan LinkResult, 1)
	n.SkipLink(id, LinkSkip{Region: 9, Life: o.life, Skip: s}, func(r LinkResult) { c <- r })
	return c
}

func TestSingleVoterLeadsWithoutWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		start := time.Now()
		n := startSolo(t, newMemDisk(1), nil)
		if !n.Leading() || time.Since(start) != 0 {
			t.Fatalf("leading %t after %v", n.Leading(), time.Since(start))
		}
	})
}

func TestIdempotentProducer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		disk.latency = 10 * time.Millisecond
		n := startSolo(t, disk, nil)
		pause(time.Second)
		id := n.partition(1)
		if r := n.append(id, 2, "a", sequenced(5, 0, 7)); r.Err != nil || r.Base != 0 || r.Duplicate {
			t.Fatalf("first batch without state: %+v", r)
		}
		if r := n.append(id, 2, "a", sequenced(5, 0, 7)); r.Err != nil || r.Base != 0 || !r.Duplicate {
			t.Fatalf("copy: %+v", r)
		}
		if r := n.append(id, 1, "c", sequenced(5, 0, 10)); rhumb.KindOf(r.Err) != rhumb.KindOutOfOrder {
			t.Fatalf("hole: %+v", r)
		}
		// A copy of a batch in flight is answered after it, in order.
		first, second, next := n.appendLater(id, 1, "b", sequenced(5, 0, 9)), n.appendLater(id, 1, "b", sequenced(5, 0, 9)), n.appendLater(id, 1, "d", sequenced(5, 0, 10))
		if r := <-first; r.Err != nil || r.Base != 2 || r.Duplicate {
			t.Fatalf("original: %+v", r)
		}
		if r := <-second; r.Err != nil || r.Base != 2 || !r.Duplicate {
			t.Fatalf("copy in flight: %+v", r)
		}
		if r := <-next; r.Err != nil || r.Base != 3 {
			t.Fatalf("after it: %+v", r)
		}
		if r := n.append(id, 1, "e", sequenced(5, 1, 3)); rhumb.KindOf(r.Err) != rhumb.KindOutOfOrder {
			t.Fatalf("new epoch that does not start at 0: %+v", r)
		}
		if r := n.append(id, 1, "e", sequenced(5, 1, 0)); r.Err != nil {
			t.Fatalf("new epoch: %+v", r)
		}
		if r := n.append(id, 1, "e", sequenced(5, 0, 11)); rhumb.KindOf(r.Err) != rhumb.KindFenced {
			t.Fatalf("old epoch: %+v", r)
		}
	})
}

func TestProducersExpireByEntryTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		n.append(id, 1, "a", sequenced(5, 0, 0))
		pause(time.Hour)
		n.append(id, 1, "b", sequenced(6, 0, 0))
		if err := n.ExpireProducers(context.Background(), time.Now().Add(-time.Minute).UnixMilli()); err != nil {
			t.Fatal(err)
		}
		if r := n.append(id, 1, "c", sequenced(5, 0, 77)); r.Err != nil {
			t.Fatalf("forgotten producer goes on anywhere: %+v", r)
		}
		if r := n.append(id, 1, "c", sequenced(6, 0, 77)); rhumb.KindOf(r.Err) != rhumb.KindOutOfOrder {
			t.Fatalf("remembered producer: %+v", r)
		}
	})
}

func TestI3AcceptRule(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		disk.latency = 5 * time.Millisecond
		n := startSolo(t, disk, nil)
		pause(time.Second)
		id := n.partition(1)
		o := newOrigin(1)
		b0, b1, b2 := o.next(2, "a"), o.next(1, "b"), o.next(3, "c")
		want := func(name string, c chan LinkResult, v dedup.Verdict, w rhumb.Offset) {
			t.Helper()
			if r := <-c; r.Err != nil || r.Verdict != v || r.Watermark.Offset != w {
				t.Fatalf("%s: %+v, want %s at %d", name, r, v, w)
			}
		}
		want("first missing", n.link(id, b1), dedup.Missing, rhumb.NoOffset)
		// All in flight at once: a copy waits, a hole is refused with the watermark
		// after what is in flight.
		c0, copied, hole := n.link(id, b0), n.link(id, b0), n.link(id, b2)
		want("first", c0, dedup.Accept, 1)
		want("copy in flight", copied, dedup.Duplicate, 1)
		want("hole in flight", hole, dedup.Missing, 1)
		want("second", n.link(id, b1), dedup.Accept, 2)
		want("third", n.link(id, b2), dedup.Accept, 5)
		want("copy", n.link(id, b1), dedup.Duplicate, 5)
		other := b2
		other.Envelope.First, other.Envelope.Last = 6, 8
		other.Envelope.Prev = 5
		want("other chain", n.link(id, other), dedup.Diverged, 5)
		st, _ := n.State(id)
		if st.End != 6 || len(st.Watermarks) != 1 || st.OwnLast != rhumb.NoOffset {
			t.Fatalf("state %+v", st)
		}
		if c, ok := n.ChainAt(id, 9, o.life, 2); !ok || c != b1.Envelope.Chain {
			t.Fatalf("chain at 2: %x %t", c, ok)
		}
		own := b2
		own.Envelope.Life = st.Life
		if r := <-n.link(id, own); rhumb.KindOf(r.Err) != rhumb.KindForbidden {
			t.Fatalf("I4: a batch came back to its own life: %+v", r)
		}
	})
}

func TestSkipsAndGaps(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		o := newOrigin(1)
		if r := <-n.skip(id, o, dedup.Skip{From: -1, To: 4, Reason: rhumb.ReasonForeign}); r.Verdict != dedup.Accept || r.Watermark.Offset != 4 || r.Watermark.Floor != rhumb.NoOffset {
			t.Fatalf("skip: %+v", r)
		}
		if r := <-n.skip(id, o, dedup.Skip{From: 4, To: 9, Chain: 77, Reason: rhumb.ReasonRetention}); r.Verdict != dedup.Accept || r.Watermark.Floor != 9 {
			t.Fatalf("gap: %+v", r)
		}
		o.end, o.last, o.chain = 10, 9, 77
		if r := <-n.link(id, o.next(1, "a")); r.Verdict != dedup.Accept {
			t.Fatalf("batch after the gap: %+v", r)
		}
		gaps := n.Gaps(id)
		if len(gaps) != 1 || gaps[0].From != 5 || gaps[0].To != 9 || gaps[0].Reason != rhumb.ReasonRetention {
			t.Fatalf("gaps %+v", gaps)
		}
		if st, _ := n.State(id); st.Gaps != 1 || st.End != 1 {
			t.Fatalf("state %+v", st)
		}
		// The gap of a copy that differs begins where the copies part, below what is here.
		if r := <-n.skip(id, o, dedup.Skip{From: 7, To: 20, Chain: 78, Reason: rhumb.ReasonDiverged, By: "ann"}); r.Verdict != dedup.Accept || r.Watermark.Floor != 20 {
			t.Fatalf("gap of a copy that differs: %+v", r)
		}
		if gaps := n.Gaps(id); len(gaps) != 2 || gaps[1].From != 8 || gaps[1].To != 20 || gaps[1].Reason != rhumb.ReasonDiverged {
			t.Fatalf("gaps %+v", gaps)
		}
		n.checkReload()
	})
}

// TestG46HolesAreRanges carries a hole of millions of offsets as one skip.
func TestG46HolesAreRanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		o := newOrigin(1)
		r := <-n.skip(id, o, dedup.Skip{From: -1, To: 5_600_000, Chain: 3, Reason: rhumb.ReasonCompacted})
		if r.Verdict != dedup.Accept || r.Watermark.Offset != 5_600_000 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestI2LogStartOnlyGrows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		ctx := context.Background()
		id := n.partition(1)
		o := newOrigin(1)
		for i := range 4 {
			n.append(id, 2, string(rune('a'+i)), nil)
			<-n.link(id, o.next(3, string(rune('a'+i))))
		}
		move := func(to, want rhumb.Offset) {
			t.Helper()
			if got, err := n.MoveLogStart(ctx, id, to, rhumb.ReasonDeleted); err != nil || got != want {
				t.Fatalf("move to %d: %d, %v", to, got, err)
			}
		}
		move(8, 8) // own 0-1, foreign 2-4, own 5-6, foreign 7-9 starts below 8
		move(3, 8)
		st, _ := n.State(id)
		if st.LogStart != 8 || st.OwnFloor != 7 || st.Watermarks[0].Floor != 5 || st.Watermarks[0].Offset != 11 {
			t.Fatalf("state %+v", st)
		}
		if _, err := n.MoveLogStart(ctx, id, 21, rhumb.ReasonDeleted); rhumb.KindOf(err) != rhumb.KindOutOfRange {
			t.Fatalf("past the end: %v", err)
		}
		move(20, 20)
		if r := n.append(id, 1, "z", nil); r.Base != 20 || r.LogStart != 20 {
			t.Fatalf("append to an emptied log: %+v", r)
		}
		n.checkReload()
	})
}

func TestEdgeStartIsFixedOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		ctx := context.Background()
		id := n.partition(1)
		n.append(id, 5, "a", nil)
		for _, c := range []struct {
			dest   rhumb.RegionNumber
			latest bool
			want   rhumb.Offset
		}{{8, true, 5}, {9, false, 0}, {8, false, 5}, {9, true, 0}} {
			if got, err := n.SetEdgeStart(ctx, id, c.dest, c.latest); err != nil || got != c.want {
				t.Fatalf("edge to %d: %d, %v, want %d", c.dest, got, err, c.want)
			}
			n.append(id, 1, "b", nil)
		}
		_, before, err := n.Rows(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 { // as each link that begins asks
			if got, err := n.SetEdgeStart(ctx, id, 8, false); err != nil || got != 5 {
				t.Fatalf("edge to 8: %d, %v", got, err)
			}
		}
		if _, after, err := n.Rows(ctx); err != nil || after != before {
			t.Errorf("asking for what is fixed took the log from %d to %d, %v", before, after, err)
		}
		n.checkReload()
	})
}

// checkReload opens the tables again and compares all rows: nothing of the state
// machine may be lost by a restart.
func (n *solo) checkReload() {
	n.t.Helper()
	rows, _, err := n.Rows(context.Background())
	if err != nil {
		n.t.Fatal(err)
	}
	m := newMachine(n.cfg.ID, n.cfg.Region)
	if err := n.disk.Tables(m.load); err != nil {
		n.t.Fatal(err)
	}
	if err := m.loaded(); err != nil {
		n.t.Fatal(err)
	}
	compareRows(n.t, "stored", m.dump(), "in memory", rows)
}

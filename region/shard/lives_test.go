package shard

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// lived says which own records a life names: base offsets of their batches.
func (n *solo) lived(id rhumb.PartitionID, life rhumb.Life) (bases []rhumb.Offset) {
	n.t.Helper()
	st, _ := n.State(id)
	for from := rhumb.Offset(0); ; {
		got, err := n.ReadOrigin(&st, OriginQuery{Partition: id, Region: 7, Life: life, From: from, Limit: st.End, MaxBytes: 100})
		if err != nil {
			n.t.Fatal(err)
		}
		if len(got) == 0 {
			return bases
		}
		for _, b := range got {
			if !life.IsZero() && b.Envelope.Life != life {
				n.t.Fatalf("batch at %d of life %s in a read of %s", b.Base, b.Envelope.Life, life)
			}
			bases = append(bases, b.Base)
			from = b.Envelope.Last + 1
		}
	}
}

func (n *solo) newLife(id rhumb.PartitionID, last rhumb.Offset) (PastLife, rhumb.Life) {
	n.t.Helper()
	st, _ := n.State(id)
	past, life, err := n.NewLife(context.Background(), id, LifeChange{Old: st.Life, Last: last, Chain: 5})
	if err != nil {
		n.t.Fatal(err)
	}
	return past, life
}

// TestNewLifeNamesWhatLiesBehind: the records behind the last offset of the old
// life are the new one's, under the offsets that they have; those of others stay.
func TestNewLifeNamesWhatLiesBehind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		o := newOrigin(1)
		for range 4 { // own 0-1 5-6 10-11 15-16
			n.append(id, 2, "own", nil)
			<-n.link(id, o.next(3, "foreign"))
		}
		first, _ := n.State(id)
		past, second := n.newLife(id, 6)
		if past != (PastLife{Life: first.Life, From: 0, Last: 6, Chain: 5, End: 20, At: past.At}) || second == first.Life {
			t.Fatalf("%+v, then %s", past, second)
		}
		n.append(id, 2, "own", nil)
		for _, c := range []struct {
			life rhumb.Life
			want []rhumb.Offset
		}{{first.Life, []rhumb.Offset{0, 5}}, {second, []rhumb.Offset{10, 15, 20}}, {rhumb.Life{}, []rhumb.Offset{0, 5, 10, 15, 20}}, {rhumb.Life{9}, nil}} {
			if got := n.lived(id, c.life); !reflect.DeepEqual(got, c.want) {
				t.Errorf("life %s names %d, want %d", c.life, got, c.want)
			}
		}
		st, _ := n.State(id)
		all, err := n.Read(&st, Query{Partition: id, Limit: st.End, MaxBytes: math.MaxInt})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if want := st.lifeAt(b.Base); b.Envelope.Region == 7 && b.Envelope.Life != want {
				t.Errorf("own batch at %d is of %s, want %s", b.Base, b.Envelope.Life, want)
			}
			if b.Envelope.Region != 7 && b.Envelope.Life != o.life {
				t.Errorf("foreign batch at %d is of %s", b.Base, b.Envelope.Life)
			}
		}
		// Again, further down: the second life keeps nothing.
		n.newLife(id, 1)
		if got := [][]rhumb.Offset{n.lived(id, first.Life), n.lived(id, second)}; !reflect.DeepEqual(got, [][]rhumb.Offset{{0}, nil}) {
			t.Errorf("first and second life name %d", got)
		}
		// What was one of the log's lives never comes back over a link.
		back := newOrigin(1)
		back.life = first.Life
		if r := <-n.link(id, back.next(1, "back")); rhumb.KindOf(r.Err) != rhumb.KindForbidden {
			t.Errorf("a past life came back: %+v", r)
		}
		n.checkReload()
		n.checkIdle()
	})
}

// TestNewLifeInsideOfAForeignBatch: a destination's watermark stands where a skip over
// others' records ended. In a log that was restored those are others, and that place
// lies inside of one of their batches: a life can end there as anywhere between own ones.
func TestNewLifeInsideOfAForeignBatch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		n.append(id, 2, "own", nil) // 0-1
		o := newOrigin(1)
		<-n.link(id, o.next(4, "foreign")) // 2-5
		n.append(id, 2, "own", nil)        // 6-7
		first, _ := n.State(id)
		past, second := n.newLife(id, 3)
		if past.Last != 3 || past.From != 0 {
			t.Fatalf("%+v", past)
		}
		if got := [][]rhumb.Offset{n.lived(id, first.Life), n.lived(id, second)}; !reflect.DeepEqual(got, [][]rhumb.Offset{{0}, {6}}) {
			t.Errorf("first and second life name %d", got)
		}
		n.checkReload()
	})
}

// TestNewLifeIsDecidedAtApply: twice the same, a life that is none any more,
// offsets where no life can end; and a restart keeps all of it.
func TestNewLifeIsDecidedAtApply(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		n := startSolo(t, disk, nil)
		id := n.partition(1)
		n.append(id, 3, "a", nil)
		st, _ := n.State(id)
		try := func(c LifeChange, want rhumb.Kind) (PastLife, rhumb.Life) {
			t.Helper()
			past, life, err := n.NewLife(context.Background(), id, c)
			if (err == nil) != (want == rhumb.KindInternal) || err != nil && rhumb.KindOf(err) != want {
				t.Fatalf("%+v: %v, want %s", c, err, want)
			}
			return past, life
		}
		try(LifeChange{Old: st.Life, Last: 3}, rhumb.KindOutOfRange)
		try(LifeChange{Old: st.Life, Last: -2}, rhumb.KindOutOfRange)
		try(LifeChange{Old: st.Life, Last: 1}, rhumb.KindInvalid) // inside of a batch
		try(LifeChange{Old: rhumb.Life{1}, Last: 2}, rhumb.KindFenced)
		past, life := try(LifeChange{Old: st.Life, Last: 2}, rhumb.KindInternal)
		n.append(id, 1, "b", nil)
		again, same := try(LifeChange{Old: st.Life, Last: 2}, rhumb.KindInternal)
		if again != past || same != life {
			t.Fatalf("a second time: %+v, %s; first %+v, %s", again, same, past, life)
		}
		n.stop()
		n = startSolo(t, disk, nil)
		if now, _ := n.State(id); now.Life != life || !reflect.DeepEqual(now.Past, []PastLife{past}) {
			t.Fatalf("after a restart: %+v", now)
		}
		if r := n.append(id, 1, "c", nil); r.Err != nil || r.Base != 4 {
			t.Fatalf("append after a restart: %+v", r)
		}
		if got := n.lived(id, life); !reflect.DeepEqual(got, []rhumb.Offset{3, 4}) {
			t.Fatalf("the new life names %d", got)
		}
		n.checkReload()
	})
}

// TestNewLifeUnderTraffic: what producers send meanwhile is stored or refused as
// retriable, never under the wrong life.
func TestNewLifeUnderTraffic(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		n := startSolo(t, disk, nil)
		id := n.partition(1)
		n.append(id, 1, "first", nil)
		disk.latency = 20 * time.Millisecond
		var answers []chan AppendResult
		for i := range 10 {
			answers = append(answers, n.appendLater(id, 1, fmt.Sprint(i), nil))
			if i == 4 {
				n.onLoop(func() {})
				go func() {
					st, _ := n.State(id)
					_, _, _ = n.NewLife(context.Background(), id, LifeChange{Old: st.Life, Last: 0})
				}()
			}
			pause(time.Millisecond)
		}
		for i, c := range answers {
			if r := <-c; r.Err != nil {
				t.Errorf("append %d: %v", i, r.Err)
			}
		}
		synctest.Wait()
		st, _ := n.State(id)
		if got := n.lived(id, st.Life); len(st.Past) != 1 || len(got) != 10 {
			t.Fatalf("%+v; the new life names %d", st, got)
		}
		n.checkIdle()
	})
}

func TestNewLifeFormatIsFrozen(t *testing.T) {
	m := newMachine(1, 7)
	m.index = 4
	c := &newLifeCommand{5, rhumb.Life{7}, rhumb.Life{8}, 1, 1 << 63}
	create := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4, time: 5}), &createPartitionCommand{rhumb.UUID{6}, soloTopic, 1, 2, rhumb.Life{7}})
	change := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 4, time: 6}), c)
	golden(t, "new-life-v1.hex", change)
	got, err := decodeNewLife(c.append(nil))
	if err != nil || *got != *c {
		t.Fatalf("%+v: %v", got, err)
	}
	for i, data := range [][]byte{create, wholeEntry(), change} {
		if _, err := m.apply(&raftpb.Entry{Index: new(uint64(5 + i)), Term: new(uint64(4)), Data: data}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var b []byte
	rows := m.dump()
	for _, kv := range rows {
		if kv.Key[0] == tablePastLife || kv.Key[0] == tablePartition {
			b = putString(putString(b, kv.Key), kv.Value)
		}
	}
	golden(t, "new-life-rows-v1.hex", b)
	again := newMachine(1, 7)
	for _, kv := range rows {
		if err := again.load(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := again.loaded(); err != nil {
		t.Fatal(err)
	}
	compareRows(t, "before", rows, "loaded", again.dump())
}

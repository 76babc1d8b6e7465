package statedb

import (
	"reflect"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func TestCompactionRows(t *testing.T) {
	db := open(t, vfs.NewMem(vfs.MemConfig{}), noLog)
	defer db.Close()
	want := Compaction{Holes: 90, Covered: 80, Void: 8, Files: []uint64{9, 1<<63 | 2},
		State: compact.State{Cleaned: 70, Tombstone: 12, Waiting: 13, Marks: []compact.Mark{{Below: 60, At: 5}, {Below: 70, At: 6}}}}
	commit(t, db, func(b *Batch) {
		b.SetPartition(3, 5, 0)
		b.SetCompaction(3, 5, &want)
		b.SetCompaction(4, 5, &Compaction{})
		b.AddSegment(7)
		b.AddSegment(1 << 63)
	})
	read := func() (list []Compaction) {
		err := db.Compactions(3, func(p rhumb.PartitionID, c Compaction) error {
			list = append(list, c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if got := read(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	commit(t, db, func(b *Batch) { b.DropSegment(7); b.DropShard(3) })
	if got := read(); len(got) != 1 {
		t.Errorf("a snapshot took the row away: %+v", got)
	}
	commit(t, db, func(b *Batch) { b.DropPartition(3, 5) })
	if got := read(); len(got) != 0 {
		t.Errorf("of a partition that is gone: %+v", got)
	}
	if ids, err := db.Segments(); err != nil || !reflect.DeepEqual(ids, []uint64{1 << 63}) {
		t.Errorf("segments %v, %v", ids, err)
	}
}

// FuzzCompactionRow: whatever the bytes are, what is read is what is written again.
func FuzzCompactionRow(f *testing.F) {
	c := Compaction{Files: []uint64{1, 2}, State: compact.State{Marks: []compact.Mark{{Below: 60, At: 5}}}}
	b := appendCompaction(nil, &c)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte{1, 255, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCompaction(b)
		if err != nil {
			return
		}
		if again, err := parseCompaction(appendCompaction(nil, &c)); err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%+v became %+v: %v", c, again, err)
		}
	})
}

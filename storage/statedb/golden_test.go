package statedb

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

var update = flag.Bool("update", false, "write the golden file: only for a format that has no released version")

// TestGoldenRows writes a row of each kind and compares keys and values, byte by
// byte, with what every later version must still read.
func TestGoldenRows(t *testing.T) {
	db := open(t, vfs.NewMem(vfs.MemConfig{}), noLog)
	defer db.Close()
	life := rhumb.Life{0: 0xaa, 15: 0xbb}
	commit(t, db, func(b *Batch) {
		b.SetApplied(3, Applied{Index: 0x1122, Term: 7, Conf: &raftpb.ConfState{Voters: []uint64{1, 2, 3}, AutoLeave: new(false)}})
		b.AddRef(3, 5, &index.Ref{Base: 100, Span: 20, Size: 3000, First: 90, Source: &index.Source{Region: 4, Life: life},
			MaxTime: 1700000000000, AppendTime: 1700000000001, Raft: 0x1120, File: 9, Pos: 1234})
		b.SetPartition(3, 5, 42)
		b.AddRun(3, 0x1100, 7)
		b.SetTable(3, []byte("key"), []byte("value"))
		b.SetCompaction(3, 5, &Compaction{Holes: 90, Covered: 80, Void: 8, Files: []uint64{9, 1<<63 | 2},
			State: compact.State{Cleaned: 70, Tombstone: 12, Waiting: rhumb.NoOffset, Held: 13, Marks: []compact.Mark{{Below: 60, At: 1700000000000}}}})
		b.AddSegment(1<<63 | 2)
	})
	if err := db.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, prefix := range "acdprst" {
		err := db.scan([]byte{byte(prefix)}, func(k, v []byte) error {
			fmt.Fprintf(&out, "%x\n  %x\n", k, v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join("testdata", "rows.txt")
	if *update {
		if err := os.WriteFile(name, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("rows are\n%s, the golden ones\n%s", &out, want)
	}
}

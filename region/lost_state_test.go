package region

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// loseState removes the state database of a node that is stopped.
func loseState(t *testing.T, fs *vfs.Mem) {
	t.Helper()
	names, err := fs.List("data/state")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatal("there is no state database: the test shows nothing")
	}
	for _, name := range names {
		if err := fs.Remove(filepath.Join("data/state", name)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestI1LostStateDatabaseIsRebuilt: as long as the log has every entry, a region whose
// state database is gone applies them again, and has all that it had.
func TestI1LostStateDatabaseIsRebuilt(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		before := n.topic(testTopic, 2)
		for i := range 20 {
			if res := n.append(before.Partitions[i%2].Ref, makeBatch(3, 500, nil)); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		n.stop(false)
		loseState(t, n.fs)
		again := startNode(t, n.fs, nil)
		after, ok := again.Topic(testTopic)
		if !ok || after.ID != before.ID || after.Partitions[0].Life != before.Partitions[0].Life {
			t.Fatalf("%+v, was %+v", after, before)
		}
		for _, p := range after.Partitions {
			if st, ok := again.State(p.Ref); !ok || st.End != 30 {
				t.Errorf("partition %d ends at %d, want 30", p.Index, st.End)
			}
		}
		if res := again.append(after.Partitions[0].Ref, makeBatch(1, 10, nil)); res.Err != nil || res.Base != 30 {
			t.Errorf("I2: the next record is %+v", res)
		}
	})
}

// TestI1LostStateDatabaseIsRefused: once log files have settled, what they brought is
// in the state database alone. A region that lost it does not start, says why, and
// changes nothing.
func TestI1LostStateDatabaseIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 1)
		for range 40 { // four log files
			if res := n.append(info.Partitions[0].Ref, makeBatch(1, 100<<10, nil)); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		synctest.Wait()
		n.stop(false)
		loseState(t, n.fs)
		for range 2 {
			s, err := storage.Open(storage.Config{FS: n.fs, Dir: "data", Shards: 3, MinFree: -1, Reserve: -1, FileSize: 1 << 20})
			if err == nil {
				s.Kill()
			}
			if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), "state database") {
				t.Fatalf("open: %v", err)
			}
		}
	})
}

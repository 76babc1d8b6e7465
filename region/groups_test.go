package region

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func groupOf(name string) GroupKey {
	return GroupKey{Tenant: "public", Namespace: "default", Group: name}
}

// TestP08GroupsKeepTheirPlace: the slot of a group is for ever, and so is the
// number of shards that slots are spread over.
func TestP08GroupsKeepTheirPlace(t *testing.T) {
	for name, want := range map[string]int{"": 5, "g": 0, "orders-reader": 6, "é": 13} {
		if got := Slot(groupOf(name)); got != want {
			t.Errorf("group %q is in slot %d, was in %d", name, got, want)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		fs := n.fs.CrashClone(vfs.CrashOptions{})
		if _, err := storage.Open(storage.Config{FS: fs, Dir: "data", Shards: 5, MinFree: -1, Reserve: -1}); err == nil {
			t.Error("a store that was made with three shards opens with five")
		}
	})
}

// TestP11LaterCommitWins: by its place in the log, whatever clocks say.
func TestP11LaterCommitWins(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 1)
		commit := func(offset rhumb.Offset, at int64) {
			t.Helper()
			c := OffsetCommit{TopicID: info.ID, Topic: testTopic, Offset: offset, At: at}
			if err := answerOf(func(done func(error)) { n.StoreOffsets(groupOf("g"), []OffsetCommit{c}, done) }); err != nil {
				t.Fatal(err)
			}
			if got := n.Offsets(groupOf("g"))[c.Key()]; got.Offset != offset {
				t.Fatalf("committed %d, found %+v", offset, got)
			}
		}
		commit(5, 1000)
		n = n.restart(1, nil)
		commit(7, 500)
		n = n.restart(2, nil)
		commit(3, 0) // a reset goes back
	})
}

// TestP18RestartKeepsEveryCommit, the last one of each group and partition.
func TestP18RestartKeepsEveryCommit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 20)
		want := map[GroupKey]map[OffsetKey]OffsetCommit{}
		for life := range uint64(3) {
			for round := range 10 {
				for g := range 10 {
					k := groupOf(fmt.Sprint("group-", g))
					if want[k] == nil {
						want[k] = map[OffsetKey]OffsetCommit{}
					}
					var commits []OffsetCommit
					for p := g % 3; p < 20; p += 1 + round%3 {
						c := OffsetCommit{TopicID: info.ID, Topic: testTopic, Partition: int32(p), Offset: rhumb.Offset(100*life) + rhumb.Offset(round), At: int64(round)}
						commits, want[k][c.Key()] = append(commits, c), c
					}
					if err := answerOf(func(done func(error)) { n.StoreOffsets(k, commits, done) }); err != nil {
						t.Fatal(err)
					}
				}
			}
			n = n.restart(life, nil)
			for k, offsets := range want {
				if got := n.Offsets(k); !maps.Equal(got, offsets) {
					t.Fatalf("%s: %d positions, want %d, or they differ", k.Group, len(got), len(offsets))
				}
			}
		}
	})
}

// TestUseOfPositionsIsCounted: what positions take follows each change, a restart, and
// the end of a topic; positions that are moved take no more.
func TestUseOfPositionsIsCounted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 3)
		commit := func(p int32, metadata string) OffsetCommit {
			return OffsetCommit{TopicID: info.ID, Topic: testTopic, Partition: p, Offset: 5, At: 1, Metadata: metadata}
		}
		store := func(k GroupKey, commits ...OffsetCommit) {
			t.Helper()
			before := n.OffsetsUse(k, commits)
			if err := answerOf(func(done func(error)) { n.StoreOffsets(k, commits, done) }); err != nil {
				t.Fatal(err)
			}
			if after := n.OffsetsUse(k, nil); after.Group != before.Group+before.More || after.All != before.All+before.More {
				t.Fatalf("%+v became %+v", before, after)
			}
		}
		a, b := groupOf("a"), groupOf("b")
		store(a, commit(0, ""), commit(1, "x"), commit(2, ""))
		store(a, commit(0, "longer"), commit(1, ""))
		store(b, commit(0, ""))
		if more := n.OffsetsUse(a, []OffsetCommit{commit(2, "")}).More; more != 0 {
			t.Errorf("a position that moves takes %d bytes more", more)
		}
		want := n.OffsetsUse(a, nil)
		if n = n.restart(1, nil); n.OffsetsUse(a, nil) != want || want.Count != 4 {
			t.Errorf("%+v, after a restart %+v", want, n.OffsetsUse(a, nil))
		}
		key := commit(0, "")
		if err := answerOf(func(done func(error)) { n.StoreDeleteOffsets(a, []OffsetKey{key.Key()}, 0, done) }); err != nil {
			t.Fatal(err)
		}
		if use := n.OffsetsUse(a, nil); use.Count != 3 || use.Group >= want.Group {
			t.Errorf("after a deletion: %+v", use)
		}
		if err := answerOf(func(done func(error)) { n.StoreDeleteGroup(a, done) }); err != nil {
			t.Fatal(err)
		}
		if use := n.OffsetsUse(a, nil); use.Count != 1 || use.Group != 0 || use.All == 0 {
			t.Errorf("without the group: %+v", use)
		}
		if err := n.DeleteTopic(t.Context(), testTopic, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		if use := n.OffsetsUse(b, nil); use != (OffsetsUse{}) {
			t.Errorf("without the topic: %+v", use)
		}
	})
}

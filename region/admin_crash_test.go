package region

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// adminStep is one administrative act; its effect on the model tells what must
// be there after it.
type adminStep struct {
	what string
	do   func(ctx context.Context, r *Region) error
}

func topicNamed(name string) rhumb.Topic {
	return rhumb.Topic{Tenant: "public", Namespace: "default", Name: rhumb.TopicName(name)}
}

func creates(name string, partitions int32, configs map[string]string) adminStep {
	return adminStep{"create " + name, func(ctx context.Context, r *Region) error {
		_, err := r.CreateTopic(ctx, TopicSpec{Topic: topicNamed(name), Partitions: partitions, Configs: configs, Deletions: r.Deletions(topicNamed(name))})
		return err
	}}
}

func alters(name, key, value string) adminStep {
	return adminStep{"alter " + name, func(ctx context.Context, r *Region) error {
		_, err := r.AlterTopicConfigs(ctx, topicNamed(name), setting(key, value))
		return err
	}}
}

func setting(key, value string) func(map[string]string) (map[string]string, error) {
	return func(old map[string]string) (map[string]string, error) {
		after := maps.Clone(old)
		if after == nil {
			after = map[string]string{}
		}
		if after[key] = value; value == "" {
			delete(after, key)
		}
		return after, nil
	}
}

func grows(name string, n int32) adminStep {
	return adminStep{"grow " + name, func(ctx context.Context, r *Region) error {
		_, err := r.GrowTopic(ctx, topicNamed(name), n)
		return err
	}}
}

func deletes(name string) adminStep {
	return adminStep{"delete " + name, func(ctx context.Context, r *Region) error {
		return r.DeleteTopic(ctx, topicNamed(name), r.Deletions(topicNamed(name))+1)
	}}
}

func sets(scope, key, value string) adminStep {
	return adminStep{"set " + key, func(ctx context.Context, r *Region) error {
		return r.AlterSettings(ctx, scope, setting(key, value))
	}}
}

// adminHistory has each kind of act, and deletes and makes again at once.
var adminHistory = []adminStep{
	creates("a", 3, map[string]string{"retention.ms": "1"}),
	alters("a", "retention.ms", "2"),
	sets(AllNodes, "log.retention.ms", "5"),
	creates("b", 1, nil),
	grows("a", 5),
	deletes("b"),
	creates("b", 2, map[string]string{"flush.ms": "7"}),
	sets("7000", "message.max.bytes", "1000"),
	deletes("a"),
	creates("a", 1, nil),
	alters("a", "cleanup.policy", "compact"),
	sets(AllNodes, "log.retention.ms", ""),
	grows("b", 4),
	deletes("b"),
}

// sketch tells all that the acts can change, but for ids.
func (r *Region) sketch() string {
	var lines []string
	for _, t := range r.Topics() {
		lines = append(lines, fmt.Sprintf("%s: %d partitions, born under %d, %v", t.Topic.Name, len(t.Partitions), t.Deletions, t.Configs))
	}
	slices.Sort(lines)
	for _, name := range []string{"a", "b"} {
		lines = append(lines, fmt.Sprintf("%s was deleted %d times", name, r.Deletions(topicNamed(name))))
	}
	lines = append(lines, fmt.Sprintf("settings %v and %v, %d partitions", r.Settings(AllNodes), r.Settings("7000"), r.PartitionCount()))
	return strings.Join(lines, "\n")
}

// A crash at any operation of the disk, in the middle of any act, leaves what was
// answered, or that and the act that was under way: nothing half, nothing that
// comes back. What is there can be written, and the history can go on.
func TestI1CrashInTheMiddleOfAdministration(t *testing.T) {
	for _, unsynced := range []vfs.Unsynced{vfs.UnsyncedKept, vfs.UnsyncedLost, vfs.UnsyncedMixed} {
		crashAdministration(t, unsynced)
	}
}

func crashAdministration(t *testing.T, unsynced vfs.Unsynced) {
	type moment struct {
		fs    *vfs.Mem
		after int // acts that were answered
	}
	var moments []moment
	states := []string{}
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		answered := 0
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		states = append(states, n.sketch())
		n.fs.SetHook(func(vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			moments = append(moments, moment{n.fs.CrashClone(vfs.CrashOptions{Seed: uint64(len(moments)), Unsynced: unsynced}), answered})
			return nil
		})
		for _, step := range adminHistory {
			if err := step.do(t.Context(), n.Region); err != nil {
				t.Fatalf("%s: %v", step.what, err)
			}
			mu.Lock()
			answered++
			mu.Unlock()
			states = append(states, n.sketch())
		}
		n.fs.SetHook(nil)
	})
	if len(moments) < 50 {
		t.Fatalf("only %d operations", len(moments))
	}
	every := 1
	if testing.Short() {
		every = 7
	}
	for i := 0; i < len(moments); i += every {
		m := moments[i]
		bubble.Test(t, func(t *testing.T) {
			n := startNode(t, m.fs, nil)
			at := m.after
			if got := n.sketch(); got != states[at] {
				if at++; at == len(states) || got != states[at] {
					t.Fatalf("operation %d, after %d acts: recovered\n%s\nwant\n%s\nor what follows", i, m.after, got, states[m.after])
				}
			}
			n.finishHistory(t, at)
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crashes", (len(moments)+every-1)/every)
}

// finishHistory writes to all there is, goes on from act at to the end, crashes
// again, and finds the end.
func (n *node) finishHistory(t *testing.T, at int) {
	for _, topic := range n.Topics() {
		ready, err := n.waitUsable(t.Context(), topic.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ready.Partitions {
			if r := n.append(p.Ref, makeBatch(1, 10, nil)); r.Err != nil || r.Base != 0 {
				t.Fatalf("%s: %+v", topic.Topic, r)
			}
		}
	}
	for _, step := range adminHistory[at:] {
		if err := step.do(t.Context(), n.Region); err != nil {
			t.Fatalf("%s, after recovery: %v", step.what, err)
		}
	}
	want := n.sketch()
	n = n.restart(1, func(*Config, *storage.Config) {})
	if got := n.sketch(); got != want {
		t.Fatalf("at the end\n%s\nwant\n%s", got, want)
	}
}

// A restart, clean or not, never lowers a partition's leader epoch (P93): clients
// take a lower one for stale metadata and wait for ever.
func TestP93LeaderEpochsNeverFall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), nil)
		info := n.topic(testTopic, 3)
		last := map[rhumb.PartitionRef]int32{}
		for seed := range uint64(5) {
			for _, p := range info.Partitions {
				st, ok := n.State(p.Ref)
				if !ok || st.LeaderEpoch < last[p.Ref] || st.LeaderEpoch <= 0 {
					t.Fatalf("restart %d: epoch %d after %d", seed, st.LeaderEpoch, last[p.Ref])
				}
				last[p.Ref] = st.LeaderEpoch
				n.append(p.Ref, makeBatch(1, 10, nil))
			}
			n = n.restart(seed, nil)
		}
	})
}

// Retention follows every layer that can say it, within a look of the region, and
// without a restart; a topic that is not deleted from keeps its records.
func TestRetentionFollowsItsSettings(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var namespace atomic.Pointer[int64] // nil: it says nothing
		n := startNode(t, vfs.NewMem(vfs.MemConfig{}), func(c *Config, _ *storage.Config) {
			c.NamespaceRetention = func(rhumb.Topic) (ms, bytes *int64) { return namespace.Load(), nil }
		})
		topic := n.topic(testTopic, 1)
		ref := topic.Partitions[0].Ref
		alter := func(key, value string) {
			if _, err := n.AlterTopicConfigs(ctx, testTopic, setting(key, value)); err != nil {
				t.Fatal(err)
			}
		}
		node := func(scope, key, value string) {
			if err := n.AlterSettings(ctx, scope, setting(key, value)); err != nil {
				t.Fatal(err)
			}
		}
		hour := "3600000"
		pause(30 * time.Second) // changes fall between two looks of the region
		for _, step := range []struct {
			what    string
			change  func()
			deletes bool
		}{
			{"nothing says it", func() {}, false},
			{"all nodes", func() { node(AllNodes, "log.retention.ms", "1") }, true},
			{"this node says more", func() { node("7000", "log.retention.ms", hour) }, false},
			{"this node says less", func() { node("7000", "log.retention.ms", "1") }, true},
			{"the namespace says more", func() { namespace.Store(new(int64(3600_000))) }, false},
			{"the topic says less", func() { alter("retention.ms", "1") }, true},
			{"the topic is compacted", func() { alter("cleanup.policy", "compact") }, false},
			{"the topic is both", func() { alter("cleanup.policy", "compact,delete") }, true},
			{"the topic says for ever", func() { alter("retention.ms", "-1") }, false},
			{"the topic says a size", func() { alter("retention.bytes", "1") }, true},
			{"the topic says nothing", func() { alter("retention.ms", ""); alter("retention.bytes", ""); alter("cleanup.policy", "") }, false},
		} {
			step.change()
			now := time.Now().UnixMilli()
			for range 2 {
				n.append(ref, makeBatch(1, 900, func(h *codec.BatchHeader) { h.FirstTimestamp, h.MaxTimestamp = now, now }))
			}
			before, _ := n.State(ref)
			pause(3 * time.Minute)
			after, _ := n.State(ref)
			if deleted := after.LogStart >= before.End-1; deleted != step.deletes {
				t.Errorf("%s: log start %d of %d, %v: deletes %v, want %v", step.what, after.LogStart, after.End, n.Layers(topic).Node, deleted, step.deletes)
			}
		}
	})
}

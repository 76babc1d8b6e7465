package shard

import (
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// onLoop runs fn on the shard's goroutine and waits for it.
func (n *solo) onLoop(fn func()) {
	n.t.Helper()
	done := make(chan struct{})
	if err := n.do(func() { fn(); close(done) }); err != nil {
		n.t.Fatal(err)
	}
	<-done
}

func TestRefusalAtApplyDropsTheCopy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disk := newMemDisk(1)
		n := startSolo(t, disk, nil)
		id, other := n.partition(1), n.partition(2)
		disk.latency = 20 * time.Millisecond
		good := n.appendLater(id, 1, "a", nil)
		synctest.Wait()
		n.onLoop(func() { n.m.partitions[id].spec.end += 5 }) // the copy goes wrong
		bad := n.appendLater(id, 1, "b", nil)
		beside := n.appendLater(other, 1, "c", nil)
		if r := <-good; r.Err != nil || r.Base != 0 {
			t.Fatalf("before: %+v", r)
		}
		if r := <-bad; rhumb.KindOf(r.Err) != rhumb.KindUnavailable {
			t.Fatalf("wrong offset: %+v", r)
		}
		if r := <-beside; r.Err != nil || r.Base != 0 {
			t.Fatalf("other partition in flight: %+v", r)
		}
		if r := n.append(id, 1, "d", nil); r.Err != nil || r.Base != 1 {
			t.Fatalf("I2: after starting again: %+v", r)
		}
		n.checkIdle()
	})
}

// checkIdle looks for what a speculative copy or a budget would leave behind.
func (n *solo) checkIdle() {
	n.t.Helper()
	synctest.Wait()
	n.onLoop(func() {
		for _, p := range n.m.partitions {
			if p.spec.pending != 0 || p.spec.last != nil {
				n.t.Errorf("partition %d: copy left: %+v", p.id, p.spec)
			}
			for _, pr := range p.producers {
				if !pr.known || pr.spec.pending != 0 || pr.spec.value != nil {
					n.t.Errorf("partition %d: producer %d: copy left", p.id, pr.id)
				}
			}
			for _, k := range p.marks {
				if !k.known || k.spec.pending != 0 || k.spec.value != nil {
					n.t.Errorf("partition %d: watermark %s: copy left", p.id, k.applied.Life)
				}
			}
		}
		if used := n.cfg.Budget.Used(); used != 0 {
			n.t.Errorf("G29: %d bytes of the budget are not given back", used)
		}
	})
}

func TestHostileNamesLeaveNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startSolo(t, newMemDisk(1), nil)
		id := n.partition(1)
		n.append(id, 1, "a", sequenced(1, 5, 0))
		for i := range byte(20) {
			o := newOrigin(100 + i)
			o.next(1, "lost")
			<-n.link(id, o.next(1, "x"))
			n.append(id, 1, "a", sequenced(1, 0, 3))
			n.append(id, 1, "a", sequenced(50+int64(i), -1, 0))
		}
		n.checkIdle()
	})
}

func TestEntryOfAnotherTermIsRefused(t *testing.T) {
	m := newMachine(1, 7)
	m.index = 4
	data := appendCommand(appendEntryHeader(nil, entryHeader{commands: 1, epoch: 3}), &createPartitionCommand{rhumb.UUID{6}, soloTopic, 1, 2, rhumb.Life{7}})
	results, err := m.apply(&raftpb.Entry{Index: new(uint64(5)), Term: new(uint64(4)), Data: data}, nil)
	if err != nil || len(results) != 1 || !results[0].refused || rhumb.KindOf(results[0].err) != rhumb.KindFenced || len(m.partitions) != 0 {
		t.Fatalf("%+v: %v", results, err)
	}
}

// TestDroppedProposalDoesNotEnterTheCopy has Raft drop proposals, as it does while
// it hands its leadership over, here to a node that is away.
func TestDroppedProposalDoesNotEnterTheCopy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := startCluster(t, 3, nil)
		l := c.leader(10 * time.Second)
		n := &solo{Shard: l.Shard, t: t}
		id := n.partition(1)
		if r := n.append(id, 3, "a", sequenced(1, 0, 0)); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.converge(5 * time.Second)
		away := l.id%3 + 1
		c.isolate(away, true)
		n.onLoop(func() { n.raft.TransferLeader(away) })
		for range 3 {
			if r := n.append(id, 1, "b", sequenced(1, 0, 3)); rhumb.KindOf(r.Err) != rhumb.KindNotLeader {
				t.Fatalf("during the transfer: %+v", r)
			}
		}
		pause(2 * time.Second) // Raft gives up the transfer
		if !n.Leading() {
			t.Fatal("leadership was lost")
		}
		if r := n.append(id, 1, "b", sequenced(1, 0, 3)); r.Err != nil || r.Base != 3 {
			t.Fatalf("after the transfer: %+v", r)
		}
		n.checkIdle()
	})
}

func TestFollowersAnswerNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := startCluster(t, 4, nil)
		l := c.leader(10 * time.Second)
		n := &solo{Shard: l.Shard, t: t}
		id := n.partition(1)
		c.converge(5 * time.Second)
		f := &solo{Shard: c.nodes[l.id%3+1].Shard, t: t}
		if r := f.append(id, 1, "a", nil); rhumb.KindOf(r.Err) != rhumb.KindNotLeader {
			t.Fatalf("append to a follower: %+v", r)
		}
		if _, err := f.OpenOrigin(t.Context(), id, 9, rhumb.Life{1}); rhumb.KindOf(err) != rhumb.KindNotLeader {
			t.Fatalf("watermark of a follower: %v", err)
		}
		if st, ok := f.State(id); !ok || st.Leading {
			t.Fatalf("state of a follower: %+v", st)
		}
	})
}

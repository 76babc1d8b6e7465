package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI12FlushedNeedsAMajority has replicas that answer before they flush.
func TestI12FlushedNeedsAMajority(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		lazy := [...]time.Duration{0, 100 * time.Millisecond, 2 * time.Second, 20 * time.Second}
		c := startClusterOn(t, 1, nil, func(id uint64) disk {
			d := newMemDisk(id)
			d.lazy = lazy[id]
			return d
		})
		l := c.leader(30 * time.Second)
		n := &solo{Shard: l.Shard, t: t}
		id := n.partition(1)
		pause(time.Minute)
		o := newOrigin(1)
		begun := time.Now()
		if r := n.append(id, 1, "a", nil); r.Err != nil || time.Since(begun) > 50*time.Millisecond {
			t.Fatalf("append %+v after %v", r, time.Since(begun))
		}
		linked := n.link(id, o.next(1, "b"))
		pause(time.Second) // one replica of three has flushed
		if st, _ := n.State(id); st.End != 2 || st.Flushed != 0 {
			t.Fatalf("before a majority flushed: %+v", st)
		}
		select {
		case r := <-linked:
			t.Fatalf("I12: confirmed before the flush: %+v", r)
		default:
		}
		w := NewWaiter()
		n.AddWaiter(id, w)
		if r := <-linked; r.Err != nil || r.Watermark.Offset != 0 || time.Since(begun) > 3*time.Second {
			t.Fatalf("confirmed %+v after %v", r, time.Since(begun))
		}
		<-w.C
		if st, _ := n.State(id); st.Flushed != 2 {
			t.Fatalf("after a majority flushed: %+v", st)
		}
		if got, err := n.OpenOrigin(context.Background(), id, 9, o.life); err != nil || got.Offset != 0 {
			t.Fatalf("watermark %+v: %v", got, err)
		}
	})
}

// TestRestartReplaysOnlyTheTail looks at where the state machine starts.
func TestRestartReplaysOnlyTheTail(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &storeDisk{fs: vfs.NewMem(vfs.MemConfig{}), seed: 5}
		open := func() (*solo, uint64, uint64) {
			d.open(t)
			st := d.storage()
			applied, _ := st.Applied()
			last, err := st.LastIndex()
			if err != nil {
				t.Fatal(err)
			}
			s, err := Open(Config{ID: 1, Region: 7, Node: 1, Voters: []uint64{1}, Storage: st, Synced: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			go func() { _ = s.Run(ctx) }()
			n := &solo{Shard: s, t: t}
			n.stop = func() { cancel(); <-s.done }
			synctest.Wait()
			return n, applied, last
		}
		n, _, _ := open()
		id := n.partition(1)
		body := string(make([]byte, 1000))
		for range 400 {
			n.append(id, 1, body, nil)
		}
		n.stop()
		d.close(t)
		n, applied, last := open()
		if applied != last || last < 400 {
			t.Errorf("clean stop: applied %d of %d", applied, last)
		}
		for range 2000 {
			n.append(id, 1, body, sequenced(rhumbProducer, 0, 0))
			n.append(id, 1, body, nil)
		}
		d2 := d.crash().(*storeDisk)
		n.stop()
		d = d2
		n, applied, last = open()
		defer func() { n.stop(); d.close(t) }()
		if applied < last/2 {
			t.Errorf("power loss: applied %d of %d", applied, last)
		}
		if st, _ := n.State(id); st.End != 400+2000+1 {
			t.Errorf("I1: end %d", st.End)
		}
	})
}

const rhumbProducer = int64(7)<<48 | 1

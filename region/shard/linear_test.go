package shard

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// step is an append of one record, or a read of the end behind a barrier.
type step struct {
	read    bool
	unknown bool // an append that failed: it may have happened
	at      rhumb.Offset
}

// logModel is the log as one client would see it: its state is its end.
var logModel = porcupine.Model{
	Init: func() any { return rhumb.Offset(0) },
	Step: func(state, _, output any) (bool, any) {
		end, out := state.(rhumb.Offset), output.(step)
		switch {
		case out.read:
			return out.at == end, end
		case out.unknown:
			return true, end + 1
		}
		return out.at == end, end + 1
	},
}

// TestLinearizable has clients append and read while leaders come and go.
func TestLinearizable(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { linearizable(t, seed) })
		})
	}
}

func linearizable(t *testing.T, seed uint64) {
	c := startCluster(t, 700+seed, nil)
	id, _, err := c.leader(20*time.Second).CreatePartition(context.Background(), PartitionSpec{Topic: soloTopic})
	if err != nil {
		t.Fatal(err)
	}
	c.converge(10 * time.Second)
	var (
		clock   atomic.Int64
		mu      sync.Mutex
		history []porcupine.Operation
		clients sync.WaitGroup
	)
	for client := range 4 {
		clients.Go(func() {
			for i := range 25 {
				pause(time.Duration(20+10*client) * time.Millisecond)
				l := c.current()
				if l == nil {
					continue
				}
				call := clock.Add(1)
				out, ok := once(l, id, (i+client)%3 == 0, fmt.Sprint(client, "/", i))
				if !ok {
					continue
				}
				op := porcupine.Operation{ClientId: client, Call: call, Return: clock.Add(1), Input: nil, Output: out}
				if out.unknown {
					op.Return = 1 << 60 // if it happens, it may happen any time later
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
			}
		})
	}
	for i := range 4 {
		pause(400 * time.Millisecond)
		if l := c.current(); l != nil && i%2 == 0 {
			c.isolate(l.id, true)
			pause(2500 * time.Millisecond)
			c.isolate(l.id, false)
		} else if l != nil {
			c.crash(l.id)
			pause(500 * time.Millisecond)
			c.start(l.id)
		}
	}
	clients.Wait()
	if result := porcupine.CheckOperationsTimeout(logModel, history, 0); result != porcupine.Ok {
		t.Fatalf("%d operations are not linearizable: %s", len(history), result)
	}
}

// once does one operation. It gives false if nothing can have happened.
func once(l *replica, id rhumb.PartitionID, read bool, body string) (step, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if read {
		err := l.ReadBarrier(ctx)
		st, ok := l.State(id)
		return step{read: true, at: st.End}, err == nil && ok
	}
	b, h := batch(1, body, nil)
	done := make(chan AppendResult, 1)
	l.Append(id, AppendRequest{b, h}, func(r AppendResult) { done <- r })
	select {
	case r := <-done:
		return step{unknown: r.Err != nil, at: r.Base}, true
	case <-ctx.Done():
		return step{unknown: true}, true
	}
}

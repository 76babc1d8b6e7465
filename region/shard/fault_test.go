package shard

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// question is a request or a call of a [faulty], and what came of it.
type question struct {
	what    string
	c       chan error // of a read, which a stopped shard may answer in other words
	body    string
	answers int
	base    rhumb.Offset
	err     error
}

// faulty is a shard of one voter whose storage fails, and all that it was asked.
type faulty struct {
	*solo
	id   rhumb.PartitionID
	orig *origin
	all  []*question
}

func (f *faulty) ask(what string) *question {
	a := &question{what: fmt.Sprintf("%s %d", what, len(f.all)), base: rhumb.NoOffset}
	f.all = append(f.all, a)
	return a
}

func (a *question) answer(err error) { a.answers, a.err = a.answers+1, err }

// hold keeps the shard's goroutine busy until the call of what it gives, so that all
// that comes meanwhile is there at once.
func (f *faulty) hold() (release func()) {
	entered, gate := make(chan struct{}), make(chan struct{})
	if err := f.do(func() { close(entered); <-gate }); err != nil {
		return func() {}
	}
	<-entered
	return func() { close(gate) }
}

// round asks one of each kind, and a batch of a producer twice.
func (f *faulty) round(n int) {
	appends := func(a *question, sequence int32) {
		a.body = fmt.Sprintf("body %d", n)
		b, h := batch(1, a.body, sequenced(5, 0, sequence))
		f.Append(f.id, AppendRequest{Batch: b, Header: h}, func(r AppendResult) { a.base = r.Base; a.answer(r.Err) })
	}
	appends(f.ask("append"), int32(n))
	appends(f.ask("the same append"), int32(n))
	link := f.ask("link")
	f.AppendLink(f.id, f.orig.next(1, "linked"), func(r LinkResult) { link.answer(r.Err) })
	create := f.ask("create")
	f.propose(&createPartitionCommand{rhumb.UUID{9}, soloTopic, int32(n), 0, rhumb.NewLife()}, func(_ any, err error) { create.answer(err) })
	read := f.ask("read barrier")
	c := make(chan error, 2)
	if err := f.do(func() { f.readIndex(c) }); err != nil {
		c <- err
	}
	read.c = c
}

// check looks at what came of everything, after the storage failed.
func (f *faulty) check(fault error) {
	for _, a := range f.all {
		for len(a.c) > 0 {
			a.answer(<-a.c)
		}
		if a.answers != 1 {
			f.t.Errorf("%s was answered %d times", a.what, a.answers)
		}
		if a.err != nil && a.c == nil && (rhumb.KindOf(a.err) != rhumb.KindUnavailable || !errors.Is(a.err, fault) || !strings.Contains(a.err.Error(), "shard 3 failed")) {
			f.t.Errorf("%s: %v", a.what, a.err)
		}
	}
	if used := f.cfg.Budget.Used(); used != 0 {
		f.t.Errorf("%d bytes of the budget are still taken", used)
	}
	again := startSolo(f.t, f.disk.crash().(*memDisk), nil)
	pause(time.Second) // it leads, and has applied what it had before
	found := again.disk.find(f.id, 1<<20, func(Stored) bool { return true })
	for _, a := range f.all {
		if a.err != nil || a.answers == 0 || a.body == "" {
			continue
		}
		kept := false
		for _, b := range found {
			kept = kept || b.Base == a.base && bytes.HasSuffix(b.Batch, []byte(a.body))
		}
		if !kept {
			f.t.Errorf("I1: %s was acknowledged at %d and is gone", a.what, a.base)
		}
	}
}

// TestI1ShardFaultAtEveryOperation breaks each operation of a shard's storage in turn,
// from that one on. The shard ends with that error; whoever asked is answered once, also
// who was just taken from the queue, or whose entry was being applied; and what was
// acknowledged is there when the replica is opened again.
func TestI1ShardFaultAtEveryOperation(t *testing.T) {
	fault := errors.New("the disk is gone")
	for n, reached := 1, true; reached; n++ {
		bubble.Test(t, func(t *testing.T) {
			disk := newMemDisk(uint64(n))
			f := &faulty{solo: startSolo(t, disk, nil), orig: newOrigin(1)}
			pause(time.Second) // it leads
			f.id = f.partition(1)
			count := 0
			reached = false
			disk.mu.Lock()
			disk.latency = time.Millisecond
			disk.fault = func() error {
				if count++; count < n {
					return nil
				}
				reached = true
				return fault
			}
			disk.mu.Unlock()
			for i := range 4 {
				release := f.hold()
				f.round(i)
				pause(2 * time.Millisecond) // the writes of the last round are done
				release()
				synctest.Wait()
			}
			pause(time.Minute)
			f.stop()
			synctest.Wait()
			f.check(fault)
			if t.Failed() {
				t.Fatalf("operation %d", n)
			}
		})
		if t.Failed() {
			return
		}
	}
}

package groups

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
	"pgregory.net/rapid"
)

// real is the model's medium on a region of one node, on a disk in memory that is
// slow when it is told to be, and loses power.
type real struct {
	*region.Region
	fail  func(format string, args ...any)
	fs    *vfs.Mem
	slow  *atomic.Bool
	id    rhumb.UUID
	store *storage.Store
	stop  func(kill bool)
}

// slowSync is how long a slow disk takes for a flush.
const slowSync = 7 * time.Second

func startReal(fail func(string, ...any), fs *vfs.Mem) *real {
	d := &real{fail: fail, fs: fs, slow: &atomic.Bool{}}
	fs.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && d.slow.Load() {
			<-time.After(slowSync)
		}
		return nil
	})
	var err error
	if d.store, err = storage.Open(storage.Config{FS: fs, Dir: "data", Shards: 2, MinFree: -1, Reserve: -1, FileSize: 1 << 20}); err != nil {
		fail("%v", err)
	}
	if d.Region, err = region.Open(region.Config{Name: "us", Number: 1, Store: d.store}); err != nil {
		fail("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	storeCtx, stopStore := context.WithCancel(context.Background())
	storeDone, regionDone := make(chan error, 1), make(chan error, 1)
	go func() { storeDone <- d.store.Run(storeCtx) }()
	go func() { regionDone <- d.Run(ctx) }()
	d.stop = func(kill bool) {
		if kill {
			d.store.Kill()
		}
		cancel()
		<-regionDone
		stopStore()
		<-storeDone
		if !kill {
			if err := d.store.Close(); err != nil {
				d.fail("%v", err)
			}
		}
	}
	if err := d.WaitReady(context.Background()); err != nil {
		fail("%v", err)
	}
	name := rhumb.Topic{Tenant: "public", Namespace: "default", Name: "t"}
	info, ok := d.Topic(name)
	if !ok {
		if info, err = d.CreateTopic(context.Background(), region.TopicSpec{Topic: name, Partitions: 1}); err != nil {
			fail("%v", err)
		}
	}
	d.id = info.ID
	return d
}

func (d *real) set(slow bool, _ error) {
	d.slow.Store(slow)
	if !slow {
		<-time.After(2 * slowSync)
	}
}

func (d *real) run(int) { <-time.After(slowSync) }

// crash is kill -9 and a power loss at once: what was not flushed may be gone.
func (d *real) crash(seed int) medium {
	fs := d.fs.CrashClone(vfs.CrashOptions{Seed: uint64(seed)})
	d.stop(true)
	return startReal(d.fail, fs)
}

func (d *real) topic() rhumb.UUID { return d.id }

func (d *real) close() { d.stop(false) }

// TestI1GroupsOnARegion is the model on the real region: kill -9 in the middle of
// rebalances, between assignments and commits, on a disk that is slow at times.
func TestI1GroupsOnARegion(t *testing.T) {
	cases := 0
	rapid.Check(t, inBubble(t, func(t *rapid.T) {
		if cases++; cases > 60 || testing.Short() && cases > 10 {
			return // one takes a region, or several
		}
		runModel(t, startReal(t.Fatalf, vfs.NewMem(vfs.MemConfig{})))
	}))
}

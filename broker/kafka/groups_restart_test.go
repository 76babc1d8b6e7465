package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Members and generations survive a loss of power: consumers go on where they
// were, without a rebalance, and read each record once.
func TestFranzGroupThroughARestart(t *testing.T) {
	disk := vfs.NewMem(vfs.MemConfig{})
	here := &harness{TB: t} // what lives through the restart
	f := newFleet(here)
	var over atomic.Bool
	defer over.Store(true)
	// This client gives up its partitions when the dial of a heartbeat is refused, as it is
	// in the moment of a restart.
	patient := func(ctx context.Context, network, addr string) (net.Conn, error) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			if !errors.Is(err, syscall.ECONNREFUSED) || over.Load() {
				return nc, err
			}
			<-tick.C
		}
	}
	moves := 0
	for life := range 3 {
		t.Run(fmt.Sprint("life ", life), func(t *testing.T) {
			r := brokertest.Real(t, func(c *storage.Config, _ *region.Config) { c.FS = disk })
			h := (&harness{TB: t, door: Listener{Bind: here.addr}}).serve(r)
			here.addr, here.broker = h.addr, h.broker
			if life == 0 {
				h.topic("t", 6, nil)
				for n := range 3 {
					opts := []kgo.Opt{kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.Dialer(patient)}
					if n > 0 {
						opts = append(opts, kgo.InstanceID(fmt.Sprint("i", n)))
					}
					f.join(n, "t", opts...)
				}
				f.until("three share", func() bool { return f.shared(6, 0, 1, 2) })
			}
			f.produce("t", life*100, life*100+100)
			f.until("all is read", func() bool { return len(f.seen) == life*100+100 })
			f.mu.Lock()
			defer f.mu.Unlock()
			if life == 0 {
				moves = f.moves
			} else if f.moves != moves {
				t.Errorf("%d partitions moved in the first life, and %d more since", moves, f.moves-moves)
			}
			for value, times := range f.seen {
				if times != 1 {
					t.Errorf("%s was read %d times", value, times)
				}
			}
			// After the power is gone nobody is answered: what a member was told is on the disk.
			if err := h.server.Close(); err != nil {
				t.Error(err)
			}
			disk = disk.CrashClone(vfs.CrashOptions{Seed: uint64(life)})
		})
	}
}

// A static member that stops and comes back within its session keeps its
// partitions; nobody else notices.
func TestFranzStaticMemberComesBack(t *testing.T) { both(t, franzStaticMemberComesBack) }

func franzStaticMemberComesBack(t *testing.T, h *harness) {
	h.topic("t", 4, nil)
	f := newFleet(h)
	static := func(n int) kgo.Opt { return kgo.InstanceID(fmt.Sprint("i", n)) }
	f.join(1, "t", static(1))
	stop := f.join(2, "t", static(2))
	f.until("two share", func() bool { return f.shared(4, 1, 2) })
	f.mu.Lock()
	moves := f.moves
	f.mu.Unlock()
	stop()
	f.produce("t", 0, 100)
	f.join(2, "t", static(2))
	f.until("all is read", func() bool { return f.shared(4, 1, 2) && len(f.seen) == 100 })
	f.mu.Lock()
	defer f.mu.Unlock()
	// Of member 2, two partitions were let go when it stopped, and two came back.
	if f.moves > moves+4 {
		t.Errorf("%d partitions moved, %d before; %v", f.moves, moves, f.owned)
	}
}

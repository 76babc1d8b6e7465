package storage

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestI1I11CrashWhileFilesSettleTogether lets several files wait, and cuts the power at each
// operation of their settling, with what was not flushed lost, kept or torn: after any of
// their indexes, and before the state database or the log starts that they leave out are
// safe. Everything is there once, and they settle again.
func TestI1I11CrashWhileFilesSettleTogether(t *testing.T) {
	for _, how := range ways {
		for _, moves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, log start moves: %v", how, moves), func(t *testing.T) { crashRow(t, how, moves) })
		}
	}
}

// rowMoment is what a crash before op leaves.
type rowMoment struct {
	fs    *vfs.Mem
	saved int
	op    vfs.Op
}

func crashRow(t *testing.T, how way, moves bool) {
	var moments []rowMoment
	h := &largeHistory{}
	bubble.Test(t, func(t *testing.T) { moments = playRow(t, h, how, moves) })
	together := 0
	for _, m := range moments {
		if index := strings.Contains(m.op.Name, indexSuffix); index && m.op.Kind == vfs.OpRename {
			break
		} else if index && m.op.Kind == vfs.OpCreate {
			together++
		}
	}
	if together < 3 {
		t.Errorf("%d files settle together", together)
	}
	step := 1
	if testing.Short() {
		step = 5
	}
	for i := 0; i < len(moments); i += step {
		m := moments[i]
		ok := t.Run(fmt.Sprintf("op %d %s %s", i, m.op.Kind, m.op.Name), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { recoverLarge(t, h, m.saved, m.fs, how) })
		})
		if !ok {
			return
		}
	}
}

// playRow writes some files, lets them settle, and gives each moment of that.
func playRow(t *testing.T, h *largeHistory, how way, moves bool) (moments []rowMoment) {
	fs := vfs.NewMem(vfs.MemConfig{})
	cfg := crashConfig(fs, how)
	cfg.CopyForwardFiles = 100
	n := start(t, cfg)
	d := newDriver(t, n.store.Shard(1))
	n.store.installs.Add(1) // as while a snapshot is installed: nothing settles
	for n.store.files.newest.Load() < 6 {
		h.add(d, 3000)
	}
	synctest.Wait()
	second, goOn := make(chan struct{}), make(chan struct{})
	indexes := 0
	var mu sync.Mutex
	fs.SetHook(func(op vfs.Op) error {
		if !op.Kind.Changes() {
			return nil
		}
		h.mu.Lock()
		saved := h.saved
		h.mu.Unlock()
		mu.Lock()
		k := len(moments)
		moments = append(moments, rowMoment{fs.CrashClone(vfs.CrashOptions{Seed: uint64(k), Unsynced: vfs.Unsynced(k % 3)}), saved, op})
		at := 0
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, indexSuffix+tmpSuffix) {
			indexes++
			at = indexes
		}
		mu.Unlock()
		if moves && at == 2 {
			close(second)
			<-goOn
		}
		return nil
	})
	n.store.installs.Add(-1)
	n.store.wake()
	if moves { // past a part of the first file, whose index is written
		<-second
		h.move(d, h.entries[3].Batches[0].Envelope.Last+1)
		close(goOn)
	}
	synctest.Wait()
	n.kill()
	return moments
}

package sim

import (
	"context"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// wipe gives the host an empty disk.
func (h *host) wipe() {
	h.fs = vfs.NewMem(vfs.MemConfig{})
	h.keeper = &configstore.MemoryKeeper{}
}

// do carries out one event. An error means that the run cannot go on, not that
// a region refused something.
func (w *world) do(e event) error {
	a, b := w.hosts[e.a], w.hosts[e.b]
	switch e.do {
	case actLink:
		w.net.set(a.ip, b.ip, e.settings)
	case actCut, actHeal:
		cut := relay.Settings{Cut: e.do == actCut, Delay: 20 * time.Millisecond}
		w.net.set(a.ip, b.ip, cut)
		w.net.set(b.ip, a.ip, cut)
	case actCrash:
		return w.switchOff(e.a, func(h *host) error { h.crash(w.seed ^ uint64(e.at)); return nil })
	case actStop:
		return w.switchOff(e.a, (*host).stop)
	case actStart:
		return w.switchOn(e.a)
	case actRecreate:
		return w.recreate(e)
	case actTrim:
		w.trim(e)
	case actBackup:
		return w.switchOff(e.a, func(h *host) error {
			if h.running == nil {
				return nil // a disk that no region has started on yet is nobody's backup
			}
			h.backup = h.fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedLost})
			return nil
		})
	case actRestore:
		return w.restore(e)
	case actShape:
		return w.change(w.plan.shapes[int(e.at/time.Millisecond)%len(w.plan.shapes)])
	case actRebuild:
		return w.rebuild(e)
	}
	return nil
}

// recreate deletes a topic in a for the whole mesh, and creates it again at once
// in b.
func (w *world) recreate(e event) error {
	name := topicName(e.topic)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	count, err := configstore.NewWriter(w.store, "sim").CountDeletion(ctx, name)
	if err != nil {
		return err
	}
	w.truth.deleted(name, count)
	defer w.createEverywhere(e.topic)
	if err := w.use(e.a, func(r *region.Region) error { return r.DeleteTopic(ctx, name, count) }); err != nil {
		w.note("delete %s: %v", name.Name, err)
	}
	// A region that is away, or still has the old life, leaves it to another. If
	// all are away, the topic is created when they are back.
	for try := range 2 * len(w.hosts) {
		if err := w.createTopic((e.b+try)%len(w.hosts), e.topic); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return nil
}

// trim deletes the older half of a topic's records in a; where they go over relays,
// mostly all of them, so that some are gone before others have them.
func (w *world) trim(e event) {
	w.truth.trim(topicName(e.topic))
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := w.use(e.a, func(r *region.Region) error {
		for _, p := range partitionsOf(r, topicName(e.topic)) {
			if st, ok := r.State(p.Ref); ok {
				before := (st.LogStart + st.End) / 2
				if len(w.plan.shapes) > 0 && int(e.at/time.Millisecond)%4 > 0 {
					before = st.End
				}
				if _, err := r.DeleteRecords(ctx, p.Ref, before); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		w.note("trim: %v", err)
	}
}

// restore replaces a's data directory by an older copy of itself. What the lives
// of that region promised since then is gone: the links must notice, and nobody
// else may suffer.
func (w *world) restore(e event) error {
	return w.switchOff(e.a, func(h *host) error {
		if h.backup == nil {
			return nil
		}
		w.truth.taint(e.a, "restored from an old copy")
		h.crash(w.seed)
		h.fs = h.backup.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
		return nil
	})
}

// rebuild empties a's disk and tells the mesh, as the operator of a lost disk
// does.
func (w *world) rebuild(e event) error {
	return w.switchOff(e.a, func(h *host) error {
		w.truth.taint(e.a, "lost with its disk")
		h.crash(w.seed)
		h.wipe()
		h.backup = nil
		_, err := configstore.NewWriter(w.store, "sim").ReplaceRegion(context.Background(), h.name)
		return err
	})
}

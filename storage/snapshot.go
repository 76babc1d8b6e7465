package storage

import (
	"io"
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// SnapshotReader gives a shard's state at one index in pieces, for a follower
// that is too late for entries. While it is open no file is deleted. It belongs
// to one goroutine, which need not be the shard's.
type SnapshotReader struct {
	sh    *Shard
	meta  *raftpb.SnapshotMetadata
	after uint64
	views map[rhumb.PartitionID]index.View
	ids   []rhumb.PartitionID
	pairs *statedb.TableReader
	w     pieceWriter

	stage  int // 0 pairs, 1 batches
	cursor *index.Cursor
	close  sync.Once
}

// OpenSnapshot opens the state as applied now. A follower that has applied
// everything up to after gets only the batches behind that, and of partitions that
// have been compacted all. To be called on the
// shard's goroutine; close the reader soon.
func (sh *Shard) OpenSnapshot(after uint64) (*SnapshotReader, error) {
	snap, err := sh.Snapshot()
	if err != nil {
		return nil, err
	}
	pairs, err := sh.store.db.OpenTables(sh.id)
	if err != nil {
		return nil, err
	}
	r := &SnapshotReader{sh: sh, meta: snap.GetMetadata(), after: after, pairs: pairs, views: map[rhumb.PartitionID]index.View{}}
	sh.store.holds.Add(1)
	sh.holds.Add(1)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for id, p := range sh.parts {
		r.views[id] = p.View()
		r.ids = append(r.ids, id)
	}
	slices.Sort(r.ids)
	for _, id := range r.ids {
		r.w.partition(id, r.views[id].Start, r.views[id].Holes)
	}
	return r, nil
}

// Metadata is the snapshot's index, term and configuration.
func (r *SnapshotReader) Metadata() *raftpb.SnapshotMetadata { return r.meta }

// Next gives the next piece, about 1 MiB, which belongs to the caller; io.EOF after
// the last one.
func (r *SnapshotReader) Next() ([]byte, error) {
	for !r.w.full() {
		more, err := r.step()
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	if b := r.w.finish(); b != nil {
		return b, nil
	}
	if r.w.number == 0 { // an empty shard still has one piece, so that it can be installed
		r.w.pair(nil, nil)
		return r.w.finish(), nil
	}
	return nil, io.EOF
}

// step adds a pair or a run of batches to the piece.
func (r *SnapshotReader) step() (more bool, err error) {
	if r.stage == 0 {
		key, value, ok, err := r.pairs.Next()
		if err != nil {
			return false, err
		}
		if ok {
			r.w.pair(key, value)
			return true, nil
		}
		r.stage = 1
	}
	for len(r.ids) > 0 {
		id := r.ids[0]
		refs, err := r.nextRefs(id)
		if err != nil {
			return false, err
		}
		if len(refs) == 0 {
			r.ids, r.cursor = r.ids[1:], nil
			continue
		}
		stored, raw, err := r.sh.fetchRaw(id, refs)
		if err != nil {
			return false, err
		}
		for i := range stored {
			r.w.batch(id, refs[i].Raft, refs[i].MaxTime, raw[i])
		}
		return true, nil
	}
	return false, nil
}

// nextRefs gives the next refs of the partition, up to half a piece; none at its end.
func (r *SnapshotReader) nextRefs(id rhumb.PartitionID) (refs []index.Ref, err error) {
	if r.cursor == nil {
		v := r.views[id]
		if r.cursor, err = v.Seek(v.Start); err != nil {
			return nil, err
		}
	}
	// A tombstone that has gone here would leave behind there what it deleted.
	whole := r.views[id].Holes > 0
	for size := 0; size < pieceSize/2; {
		ref, err := r.cursor.Next()
		if err != nil {
			return nil, err
		}
		if ref == nil {
			break
		}
		if ref.Raft > r.after || whole {
			refs = append(refs, *ref)
			size += int(ref.Size)
		}
	}
	return refs, nil
}

// Close lets deletion go on. It is idempotent.
func (r *SnapshotReader) Close() error {
	var err error
	r.close.Do(func() {
		err = r.pairs.Close()
		r.sh.holds.Add(-1)
		r.sh.store.holds.Add(-1)
		r.sh.store.wake()
	})
	return err
}

package storage

import (
	"github.com/rhumbmq/rhumb/storage/compact"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// compacted notes a partition that the sender of a snapshot has compacted: all that it
// has comes with the snapshot, and what the shard had of it does not count any more.
func (r *replacement) compacted(it *item, p *index.Partition) {
	old := r.sh.compactions[it.partition]
	switch {
	case it.holes > 0:
		row := &statedb.Compaction{State: compact.NewState(), Holes: it.holes, Void: r.sh.store.files.settledThrough()}
		r.b.SetCompaction(r.sh.id, it.partition, row)
		r.rows[it.partition] = row
		p.SetHoles(it.holes)
	case old != nil:
		r.rows[it.partition] = old
		p.SetHoles(old.Holes)
	}
}

// dropCompactions forgets the rows of partitions that the snapshot does not have.
func (r *replacement) dropCompactions() {
	for id := range r.sh.compactions {
		if r.rows[id] == nil {
			r.b.DropCompaction(r.sh.id, id)
		}
	}
}

// publishCompactions lets the rows count; the caller holds the shard's mu.
func (r *replacement) publishCompactions() { r.sh.compactions = r.rows }

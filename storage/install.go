package storage

import (
	"encoding/binary"
	"fmt"
	"maps"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// Install takes a snapshot in. Its pieces are written to the log as they come and
// mean nothing until Commit's frame is flushed; a crash before that discards them,
// and one after it completes the installation at the next start. While it is open
// no file settles and nothing is copied forward, so end it with Finish or Abort. It belongs to the shard's
// goroutine.
type Install struct {
	sh     *Shard
	meta   *raftpb.SnapshotMetadata
	pieces []commitlog.Location // set by the log's goroutine; read after Commit is done
	count  int
	err    error // of a piece, likewise
	ended  bool
	// flushed: the snapshot frame is on disk. Under the lock of the shard's entries.
	flushed bool
}

// BeginInstall begins to take in the snapshot of that index, term and
// configuration, whose pieces hold all batches of entries above the present applied
// index. It flushes the state database: what the shard has applied is not in the
// pieces, and the snapshot will cancel its entries.
func (sh *Shard) BeginInstall(meta *raftpb.SnapshotMetadata) (*Install, error) {
	if meta.GetIndex() <= sh.applied.Load() {
		return nil, fmt.Errorf("storage: shard %d: snapshot at %d, applied is %d", sh.id, meta.GetIndex(), sh.applied.Load())
	}
	if err := sh.store.db.Flush(sh.store.life); err != nil {
		return nil, err
	}
	sh.store.settling.Lock() // a file that is settling now is not replaced half-way
	sh.store.installs.Add(1)
	sh.store.settling.Unlock()
	return &Install{sh: sh, meta: meta}, nil
}

// Add writes the next piece, as [SnapshotReader.Next] gave it. It belongs to the
// store until done, which is called from the log's goroutine.
func (in *Install) Add(piece []byte, done func(error)) error {
	number, err := parsePiece(piece, func(*item) error { return nil })
	if err != nil {
		return err
	}
	if int(number) != in.count {
		return pieceError("number %d, want %d", number, in.count)
	}
	in.count++
	in.queue(commitlog.KindSnapshotData, piece, nil, func(locs []commitlog.Location, err error) {
		if err == nil {
			in.pieces = append(in.pieces, locs...)
		} else if in.err == nil {
			in.err = err
		}
		done(err)
	})
	return nil
}

func (in *Install) queue(kind commitlog.Kind, data []byte, hs *raftpb.HardState, done func([]commitlog.Location, error)) {
	f := &commitlog.Frame{Kind: kind, Shard: in.sh.id, HardState: hs, Entries: []*raftpb.Entry{
		{Index: new(in.meta.GetIndex()), Term: new(in.meta.GetTerm()), Data: data}}}
	if kind == commitlog.KindSnapshot {
		conf, err := proto.Marshal(in.meta.GetConfState())
		if err != nil {
			done(nil, err)
			return
		}
		f.Conf = conf
		f.Flushed = in.onDisk
	}
	in.sh.saving.Lock()
	defer in.sh.saving.Unlock()
	in.sh.store.log.Append(f, true, done)
}

// Commit makes the snapshot count, with the hard state that Raft has by then (nil
// if it stays). After done, which is called from the log's goroutine, call Finish;
// save nothing for this shard in between.
func (in *Install) Commit(hs *raftpb.HardState, done func(error)) {
	count := binary.LittleEndian.AppendUint32(nil, uint32(in.count))
	in.queue(commitlog.KindSnapshot, count, hs, func(_ []commitlog.Location, err error) {
		if err == nil {
			err = in.err
		}
		done(err)
	})
	if hs != nil {
		in.sh.hard = hs
	}
}

// onDisk notes that the snapshot is on disk, whatever the durability.
func (in *Install) onDisk(err error) {
	t := &in.sh.entries
	t.mu.Lock()
	defer t.mu.Unlock()
	in.flushed = err == nil
	if index := in.meta.GetIndex(); in.flushed && t.base >= index {
		t.flushed = max(t.flushed, index)
	}
}

// Finish puts the shard's state at the snapshot: tables, partitions, log starts,
// and Raft's log, which begins after it. Read the tables anew afterwards.
func (in *Install) Finish() error {
	defer in.end()
	sh := in.sh
	err := sh.installPieces(in.meta, in.pieces, func(raft uint64) (commitlog.Location, bool) {
		_, loc, ok := sh.entries.lookup(raft)
		return loc, ok && loc.File != 0
	})
	if err != nil {
		return err
	}
	sh.entries.mu.Lock()
	sh.entries.reset(in.meta.GetIndex(), in.meta.GetTerm())
	if in.flushed {
		sh.entries.flushed = in.meta.GetIndex()
	}
	sh.entries.mu.Unlock()
	return nil
}

// Abort forgets what was added. It does nothing after Finish.
func (in *Install) Abort() { in.end() }

func (in *Install) end() {
	if !in.ended {
		in.ended = true
		in.sh.store.installs.Add(-1)
		in.sh.store.wake()
	}
}

// placeOf tells where an entry is that batches are known by.
type placeOf func(raft uint64) (commitlog.Location, bool)

// replacement is a shard's next state while the pieces of a snapshot are read.
type replacement struct {
	sh    *Shard
	b     *statedb.Batch
	parts map[rhumb.PartitionID]*index.Partition
	rows  map[rhumb.PartitionID]*statedb.Compaction
	first commitlog.Location // of the first piece
	place placeOf
}

// installPieces reads the pieces back from the log and replaces the shard's state
// by them. Batches that the shard has already stay where they are; place finds
// those that are known by their entry, since the entries go.
func (sh *Shard) installPieces(meta *raftpb.SnapshotMetadata, pieces []commitlog.Location, place placeOf) error {
	r := &replacement{sh: sh, b: sh.store.db.NewBatch(), parts: map[rhumb.PartitionID]*index.Partition{},
		rows: map[rhumb.PartitionID]*statedb.Compaction{}, place: place}
	r.b.DropShard(sh.id)
	for i, loc := range pieces {
		if i == 0 {
			r.first = loc
		}
		data := make([]byte, loc.Len)
		err := sh.store.log.ReadAt(loc, data)
		var number uint32
		if err == nil {
			number, err = parsePiece(data, func(it *item) error { return r.add(it, loc) })
		}
		if err == nil && int(number) != i {
			err = pieceError("number %d, want %d", number, i)
		}
		if err != nil {
			r.b.Discard()
			return fmt.Errorf("storage: shard %d: snapshot at %d: %w", sh.id, meta.GetIndex(), err)
		}
	}
	applied := statedb.Applied{Index: meta.GetIndex(), Term: meta.GetTerm(), Conf: meta.GetConfState()}
	r.dropCompactions()
	r.b.AddRun(sh.id, applied.Index, applied.Term)
	r.b.SetApplied(sh.id, applied)
	if err := r.b.Commit(); err != nil {
		return err
	}
	sh.mu.Lock()
	old := sh.parts
	sh.parts = r.parts
	r.publishCompactions()
	sh.mu.Unlock()
	sh.releaseReplaced(old, r.parts)
	sh.runs = []statedb.Run{{Index: applied.Index, Term: applied.Term}}
	sh.conf, sh.term = applied.Conf, applied.Term
	sh.applied.Store(applied.Index)
	sh.tellConf()
	return nil
}

// add takes in an item of the piece at loc.
func (r *replacement) add(it *item, loc commitlog.Location) error {
	sh := r.sh
	switch it.kind {
	case itemPair:
		if len(it.key) > 0 {
			r.b.SetTable(sh.id, it.key, it.value)
		}
	case itemPartition:
		r.b.SetPartition(sh.id, it.partition, it.start)
		p, err := r.keep(it)
		r.compacted(it, p)
		r.parts[it.partition] = p
		return err
	case itemBatch:
		p := r.parts[it.partition]
		if p == nil {
			return pieceError("batch of partition %d, which was not named", it.partition)
		}
		e := &it.envelope
		sh.mu.Lock()
		src := sh.source(index.Source{Region: e.Region, Life: e.Life})
		sh.mu.Unlock()
		ref := index.Ref{
			Base: it.base, Span: uint32(e.Last - e.First + 1), Size: uint32(len(it.bytes)), First: e.First, Source: src,
			MaxTime: it.maxTime, AppendTime: e.AppendTime, Raft: it.raft, File: loc.File, Pos: uint64(loc.Pos) + uint64(it.at),
		}
		if p.Append(ref) { // else the shard has it
			r.b.AddRef(sh.id, it.partition, &ref)
		}
	}
	return nil
}

// keep makes the new index of a partition of what the shard has of it. What lies
// behind the first piece in the log was applied after the installation began: that
// is in the pieces, too, and is taken from there, so that a partition's batches
// stay in the order of their files, in which files settle.
func (r *replacement) keep(it *item) (*index.Partition, error) {
	sh := r.sh
	p := index.NewPartition(index.Key{Shard: sh.id, Partition: it.partition}, it.start)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	old := sh.parts[it.partition]
	if old == nil || it.holes > 0 {
		return p, nil
	}
	for _, pt := range old.Parts() {
		if pt.Last >= it.start {
			p.AddPart(pt)
		}
	}
	_, refs, err := old.Unsettled(nil, func(*index.Ref) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if ref.Last() < it.start {
			continue
		}
		if ref.File == 0 {
			loc, ok := r.place(ref.Raft)
			if !ok {
				return nil, fmt.Errorf("storage: shard %d: entry %d has no place", sh.id, ref.Raft)
			}
			ref.File, ref.Pos = loc.File, uint64(loc.Pos)+ref.Pos
		}
		if ref.File > r.first.File || ref.File == r.first.File && ref.Pos > uint64(r.first.Pos) {
			break
		}
		if p.Append(ref) {
			r.b.AddRef(sh.id, it.partition, &ref)
		}
	}
	return p, nil
}

// releaseReplaced gives back the parts that the new index does not have.
func (sh *Shard) releaseReplaced(old, next map[rhumb.PartitionID]*index.Partition) {
	kept := map[*index.Part]bool{}
	for p := range maps.Values(next) {
		for _, pt := range p.Parts() {
			kept[pt] = true
		}
	}
	var gone []*index.Part
	for p := range maps.Values(old) {
		for _, pt := range p.Parts() {
			if !kept[pt] {
				gone = append(gone, pt)
			}
		}
	}
	sh.store.files.release(gone)
}

// pendingInstall is a snapshot that the log has, seen in replay.
type pendingInstall struct {
	meta   *raftpb.SnapshotMetadata
	count  int // of pieces, as the snapshot frame says
	pieces []commitlog.Location
	old    entryTable // the entries before it, for batches that are known by them
}

// replaySnapshotData notes a piece; the first one of an attempt forgets those of
// another attempt before it.
func (sh *Shard) replaySnapshotData(f *commitlog.Frame, locs []commitlog.Location) {
	for i, e := range f.Entries {
		if data := e.GetData(); len(data) >= pieceHeaderSize && binary.LittleEndian.Uint32(data[4:]) == 0 {
			sh.staged = nil
		}
		sh.staged = append(sh.staged, locs[i])
	}
}

// replaySnapshot makes Raft's log begin after a snapshot.
func (sh *Shard) replaySnapshot(f *commitlog.Frame) error {
	e := f.Entries[0]
	conf := &raftpb.ConfState{}
	if err := proto.Unmarshal(f.Conf, conf); err != nil {
		return rhumb.Errorf(rhumb.KindCorrupt, "storage: shard %d: conf state of the snapshot at %d: %w", sh.id, e.GetIndex(), err)
	}
	if len(e.GetData()) < 4 {
		return rhumb.Errorf(rhumb.KindCorrupt, "storage: shard %d: snapshot at %d does not say its pieces", sh.id, e.GetIndex())
	}
	t := &sh.entries
	in := &pendingInstall{
		count:  int(binary.LittleEndian.Uint32(e.GetData())),
		meta:   &raftpb.SnapshotMetadata{Index: new(e.GetIndex()), Term: new(e.GetTerm()), ConfState: conf},
		pieces: sh.staged,
	}
	in.old.base, in.old.slots = t.base, append([]slot(nil), t.slots...)
	sh.staged = nil
	sh.pending = in
	t.reset(e.GetIndex(), e.GetTerm())
	return nil
}

// completeInstall installs the last snapshot of the log if the state database does
// not have it.
func (sh *Shard) completeInstall() error {
	in := sh.pending
	sh.pending, sh.staged = nil, nil
	if in == nil || in.meta.GetIndex() <= sh.applied.Load() {
		return nil
	}
	if in.count != len(in.pieces) {
		return rhumb.Errorf(rhumb.KindCorrupt, "snapshot at %d has %d pieces in the log, want %d", in.meta.GetIndex(), len(in.pieces), in.count)
	}
	return sh.installPieces(in.meta, in.pieces, func(raft uint64) (commitlog.Location, bool) {
		_, loc, ok := in.old.lookup(raft)
		return loc, ok
	})
}

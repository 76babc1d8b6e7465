package storage

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/statedb"
)

// KV is a pair of a shard's tables.
type KV struct{ Key, Value []byte }

// BatchRef is a batch that an applied entry carries.
type BatchRef struct {
	Partition    rhumb.PartitionID
	Index        uint64 // of the Raft entry
	At           int    // position of the envelope in the entry's data
	Envelope     codec.Envelope
	Base         rhumb.Offset // local offset of the first record
	MaxTimestamp int64        // ms, as the client said
	// Bytes is envelope and batch; only their length is used, the data stays where
	// Raft's entry is. Nil means what the envelope says, in its present version.
	Bytes []byte
}

// LogStart moves a partition's log start; a lower one than before is ignored.
type LogStart struct {
	Partition rhumb.PartitionID
	Start     rhumb.Offset
}

// Update is what applying one Raft entry changes.
type Update struct {
	Index, Term uint64              // of the entry; each index once, in order
	Conf        *raftpb.ConfState   // new configuration, nil if it stays
	Sets        []KV                // of the shard's tables
	Deletes     [][]byte            // keys of the shard's tables
	Batches     []BatchRef          // per partition in offset order
	LogStarts   []LogStart          // after the batches
	Drops       []rhumb.PartitionID // partitions that end with this entry, last of all
}

// Apply indexes batches and keeps the tables, all of it with the applied index in
// one step. Readers see the batches when it returns. It is not flushed: after a
// crash the entry is applied again.
func (sh *Shard) Apply(u *Update) error {
	if applied := sh.applied.Load(); u.Index <= applied {
		return fmt.Errorf("storage: shard %d: entry %d is applied already, at %d", sh.id, u.Index, applied)
	}
	if err := sh.store.space.failure(); err != nil {
		return err
	}
	b := sh.store.db.NewBatch()
	refs, err := sh.putRefs(b, u.Batches)
	if err != nil {
		b.Discard()
		return err
	}
	for _, kv := range u.Sets {
		b.SetTable(sh.id, kv.Key, kv.Value)
	}
	for _, k := range u.Deletes {
		b.DeleteTable(sh.id, k)
	}
	sh.putStarts(b, u, refs)
	conf := sh.conf
	if u.Conf != nil {
		conf = u.Conf
	}
	newRun := len(sh.runs) == 0 || sh.runs[len(sh.runs)-1].Term != u.Term
	if newRun {
		b.AddRun(sh.id, u.Index, u.Term)
		sh.dropRuns(b)
	}
	b.SetApplied(sh.id, statedb.Applied{Index: u.Index, Term: u.Term, Conf: conf})
	if err := b.Commit(); err != nil {
		return fmt.Errorf("storage: shard %d: apply of %d: %w", sh.id, u.Index, err)
	}
	if newRun {
		sh.runs = append(sh.runs, statedb.Run{Index: u.Index, Term: u.Term})
	}
	sh.publish(u, refs)
	if u.Conf != nil {
		sh.conf = u.Conf
		sh.tellConf()
	}
	sh.term = u.Term
	sh.applied.Store(u.Index)
	sh.trim()
	if len(u.LogStarts) > 0 || len(u.Drops) > 0 || sh.store.files.waitsFor(sh.id, u.Index) {
		sh.store.wake()
	}
	return nil
}

// dropRuns forgets the term runs that lie before what Raft can ask for.
func (sh *Shard) dropRuns(b *statedb.Batch) {
	first, _ := sh.FirstIndex()
	n := 0
	for n+1 < len(sh.runs) && sh.runs[n+1].Index < first {
		n++
	}
	if n > 0 {
		sh.runs = sh.runs[n:]
		b.DropRuns(sh.id, sh.runs[0].Index)
	}
}

// putRefs makes the refs of the batches and puts their rows into b. Nothing else
// is changed: a refused update leaves no trace.
func (sh *Shard) putRefs(b *statedb.Batch, batches []BatchRef) ([]index.Ref, error) {
	if len(batches) == 0 {
		return nil, nil
	}
	refs := make([]index.Ref, len(batches))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	ends := map[rhumb.PartitionID]rhumb.Offset{}
	for i := range batches {
		br := &batches[i]
		e := &br.Envelope
		end, seen := ends[br.Partition]
		if p := sh.parts[br.Partition]; !seen && p != nil {
			end = p.End()
		} else if !seen {
			b.SetPartition(sh.id, br.Partition, 0)
		}
		if e.Last < e.First || e.Last-e.First >= 1<<31 || br.Base < end || br.At < 0 {
			return nil, fmt.Errorf("storage: shard %d partition %d: batch of origin offsets %d to %d at %d, log ends at %d",
				sh.id, br.Partition, e.First, e.Last, br.Base, end)
		}
		size := len(br.Bytes)
		if br.Bytes == nil {
			size = codec.EnvelopeSize + int(e.BatchSize)
		}
		refs[i] = index.Ref{
			Base: br.Base, Span: uint32(e.Last - e.First + 1), Size: uint32(size), First: e.First,
			Source:  sh.source(index.Source{Region: e.Region, Life: e.Life}),
			MaxTime: br.MaxTimestamp, AppendTime: e.AppendTime, Raft: br.Index, Pos: uint64(br.At),
		}
		ends[br.Partition] = refs[i].Last() + 1
		b.AddRef(sh.id, br.Partition, &refs[i])
	}
	return refs, nil
}

// putStarts puts the rows of log starts and drops into b.
func (sh *Shard) putStarts(b *statedb.Batch, u *Update, refs []index.Ref) {
	if len(u.LogStarts) == 0 && len(u.Drops) == 0 {
		return
	}
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	for _, ls := range u.LogStarts {
		end := ls.Start // of the rows that go: a batch that the start lies in stays
		if p := sh.parts[ls.Partition]; p != nil {
			if ls.Start <= p.Start() {
				continue
			}
			end = p.DenseFrom(ls.Start)
		}
		for i := range refs {
			if u.Batches[i].Partition == ls.Partition && refs[i].Last() >= ls.Start {
				end = min(end, refs[i].Base)
			}
		}
		b.SetPartition(sh.id, ls.Partition, ls.Start)
		b.DropRefs(sh.id, ls.Partition, end)
	}
	for _, id := range u.Drops {
		b.DropPartition(sh.id, id)
	}
}

// publish makes an update visible to readers.
func (sh *Shard) publish(u *Update, refs []index.Ref) {
	if len(refs) == 0 && len(u.LogStarts) == 0 && len(u.Drops) == 0 {
		return
	}
	var passed []*index.Part
	sh.mu.Lock()
	for i := range refs {
		sh.partition(u.Batches[i].Partition).Append(refs[i])
	}
	for _, ls := range u.LogStarts {
		passed = append(passed, sh.partition(ls.Partition).SetStart(ls.Start)...)
	}
	for _, id := range u.Drops {
		if p := sh.parts[id]; p != nil {
			passed = append(passed, p.Parts()...)
			delete(sh.parts, id)
		}
		delete(sh.compactions, id)
		delete(sh.policies, id)
	}
	sh.mu.Unlock()
	sh.store.files.release(passed)
}

// partition gives a partition's index, making it if absent; the caller holds mu.
func (sh *Shard) partition(id rhumb.PartitionID) *index.Partition {
	p := sh.parts[id]
	if p == nil {
		p = index.NewPartition(index.Key{Shard: sh.id, Partition: id}, 0)
		sh.parts[id] = p
	}
	return p
}

// tellConf gives the log what its checkpoints carry.
func (sh *Shard) tellConf() {
	if b, err := proto.Marshal(sh.conf); err == nil {
		sh.store.log.SetConf(sh.id, b)
	}
}

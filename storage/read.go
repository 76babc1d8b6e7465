package storage

import (
	"errors"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/blocks"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
)

const (
	// maxReadRun is how much one read of a file takes at most, unless one batch has more.
	maxReadRun = 1 << 20
	// maxReadGap is how many bytes between two batches are read rather than skipped.
	maxReadGap = 4 << 10
)

// Stored is a batch as it is stored. It is shared: it must not be changed.
type Stored struct {
	Base     rhumb.Offset // local offset of the first record
	Envelope codec.Envelope
	Batch    []byte // as patched by the leader; nil if there is a place
	// Place is where the batch lies, nil if Batch is given. Whoever got it by
	// Query.ByPlace releases it.
	Place *Place
}

// Size is the batch's length in bytes.
func (s *Stored) Size() int {
	if s.Place != nil {
		return s.Place.Size()
	}
	return len(s.Batch)
}

// Last is the local offset of the batch's last record.
func (s *Stored) Last() rhumb.Offset { return s.Base + s.Envelope.Last - s.Envelope.First }

// Query asks for a partition's batches in offset order.
type Query struct {
	Partition rhumb.PartitionID
	From      rhumb.Offset // the first batch is the one that holds From, or the next one
	Limit     rhumb.Offset // batches with a base offset below it
	MaxBytes  int          // of batches with envelopes; the first batch comes in any case
	ByPlace   bool         // give large batches that lie in files by their place
	// MostFirst bounds the first batch, with its envelope, too: a larger one that would have
	// to be held in memory is not read, and the error is a LargeBatchError. 0: no bound.
	MostFirst int
}

// LargeBatchError says that a batch was not read since it is larger than Query.MostFirst.
type LargeBatchError struct {
	Base rhumb.Offset
	Size int // with its envelope
}

// Error implements error.
func (e *LargeBatchError) Error() string {
	return fmt.Sprintf("storage: the batch at %d takes %d bytes, more than is to be read at once", e.Base, e.Size)
}

// OriginQuery asks for the batches of one origin life, in its order.
type OriginQuery struct {
	Partition rhumb.PartitionID
	Region    rhumb.RegionNumber
	Life      rhumb.Life
	From      rhumb.Offset // at the origin: batches that end there or later
	Limit     rhumb.Offset // local: batches with a base offset below it
	MaxBytes  int
	MostFirst int // as in Query
}

// errRetry says that a view is out of date: files settled or were deleted.
var errRetry = errors.New("storage: view is out of date")

// Read gives whole batches. A From below the log start is of kind out of range; a
// partition of which nothing is stored has no batches. Offsets have no holes from the
// log start to the end but those of compaction: another one is of kind corrupt, not
// an empty result.
func (sh *Shard) Read(q Query) ([]Stored, error) {
	if !q.ByPlace {
		return sh.readFrom(q, sh.fetchBounded(q.MostFirst))
	}
	got, err := sh.readFrom(q, sh.byPlace)
	if err == nil {
		sh.store.preparer.after(sh, q, got)
	}
	return got, err
}

// fetchBounded is fetch, but for a first batch of more than most bytes; 0: of any size.
func (sh *Shard) fetchBounded(most int) getter {
	return func(p rhumb.PartitionID, refs []index.Ref) ([]Stored, error) {
		if most > 0 && len(refs) > 0 && int(refs[0].Size) > most {
			return nil, &LargeBatchError{refs[0].Base, int(refs[0].Size)}
		}
		return sh.fetch(p, refs)
	}
}

func (sh *Shard) readFrom(q Query, get getter) ([]Stored, error) {
	return sh.read(q.Partition, q.MaxBytes, get, func(v *index.View) (next func() (*index.Ref, error), err error) {
		if q.From < v.Start {
			return nil, rhumb.Errorf(rhumb.KindOutOfRange, "storage: shard %d partition %d: offset %d is below the log start %d",
				sh.id, q.Partition, q.From, v.Start)
		}
		c, err := v.Seek(q.From)
		if err != nil {
			return nil, err
		}
		want, end := q.From, min(q.Limit, v.End)
		return func() (*index.Ref, error) {
			r, err := c.Next()
			whole := max(want, v.Holes) // from here on nothing may be missing
			switch {
			case err != nil || want >= end:
				return nil, err
			case r == nil && end <= whole, r != nil && r.Base >= end && end <= whole:
				return nil, nil
			case r == nil:
				return nil, hole(q.Partition, whole, end)
			case r.Base > whole && want > q.From:
				return nil, nil // what lies before the hole is given
			case r.Base > whole:
				return nil, hole(q.Partition, whole, r.Base)
			}
			want = r.Last() + 1
			return r, nil
		}, nil
	})
}

// ReadOrigin gives whole batches of one origin life. Those below the log start do
// not come: the caller compares with the floor.
func (sh *Shard) ReadOrigin(q OriginQuery) ([]Stored, error) {
	src := index.Source{Region: q.Region, Life: q.Life}
	return sh.read(q.Partition, q.MaxBytes, sh.fetchBounded(q.MostFirst), func(v *index.View) (next func() (*index.Ref, error), err error) {
		c, err := v.SeekOrigin(src, q.From)
		if err != nil {
			return nil, err
		}
		return func() (*index.Ref, error) {
			for {
				r, err := c.Next()
				if r == nil || r.Base >= q.Limit {
					return nil, err
				}
				if *r.Source == src && r.OriginLast() >= q.From && r.Last() >= v.Start {
					return r, nil
				}
			}
		}, nil
	})
}

// ByTime gives the first batch, from the log start on and with a base offset below
// limit, whose largest timestamp is at least ts.
func (sh *Shard) ByTime(p rhumb.PartitionID, ts int64, limit rhumb.Offset) (Stored, bool, error) {
	return sh.one(p, func(v *index.View) (*index.Ref, error) { return v.ByTime(ts, limit) })
}

// Latest gives the first of the batches with the largest timestamp, among those
// from the log start on and with a base offset below limit.
func (sh *Shard) Latest(p rhumb.PartitionID, limit rhumb.Offset) (Stored, bool, error) {
	return sh.one(p, func(v *index.View) (*index.Ref, error) { return v.Latest(limit) })
}

func (sh *Shard) one(p rhumb.PartitionID, find func(*index.View) (*index.Ref, error)) (Stored, bool, error) {
	got, err := sh.read(p, 0, sh.fetch, func(v *index.View) (func() (*index.Ref, error), error) {
		r, err := find(v)
		if err != nil {
			return nil, err
		}
		return func() (*index.Ref, error) { return r, nil }, nil
	})
	if err != nil || len(got) == 0 {
		return Stored{}, false, err
	}
	return got[0], true, nil
}

// Bytes is what the partition's batches from the log start on take, with their
// envelopes; the batch that the log start lies in counts as a whole. It depends on
// what is applied alone. If an index cannot be read, what lies below the log start
// in its file is counted, too.
func (sh *Shard) Bytes(p rhumb.PartitionID) (n int64) {
	for range maxReadAttempts {
		v, _ := sh.view(p)
		var err error
		if n, err = v.Bytes(); !errors.Is(err, index.ErrGone) {
			break
		}
	}
	return n
}

// LogStart is the partition's log start as applied, 0 if nothing is stored of it.
func (sh *Shard) LogStart(p rhumb.PartitionID) rhumb.Offset {
	v, _ := sh.view(p)
	return v.Start
}

// Retention is how much of a partition is kept.
type Retention struct {
	BeforeMs int64        // batches older than this go; 0 keeps all
	MaxBytes int64        // as many go that at most so many bytes stay; 0 keeps all
	Limit    rhumb.Offset // never beyond; 0 means the end
}

// RetentionStart gives the batch border to which the log start would move, the
// present log start if nothing is to go. A batch's age is its largest timestamp,
// but never later than its append. Where the index cannot be read it stays.
func (sh *Shard) RetentionStart(p rhumb.PartitionID, keep Retention) rhumb.Offset {
	maxBytes := keep.MaxBytes
	if maxBytes <= 0 {
		maxBytes = -1
	}
	for range maxReadAttempts {
		v, _ := sh.view(p)
		limit := v.End
		if keep.Limit > 0 {
			limit = min(limit, keep.Limit)
		}
		start, err := v.RetentionStart(keep.BeforeMs, maxBytes, limit)
		if err == nil {
			return start
		}
		if !errors.Is(err, index.ErrGone) {
			return v.Start
		}
	}
	return sh.LogStart(p)
}

func (sh *Shard) view(p rhumb.PartitionID) (index.View, bool) {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if ix := sh.parts[p]; ix != nil {
		return ix.View(), true
	}
	return index.View{}, false
}

// getter gets the batches of refs.
type getter func(rhumb.PartitionID, []index.Ref) ([]Stored, error)

// read gathers refs from a view and gets their batches. It starts again with a
// new view when settling or deleting overtook it.
func (sh *Shard) read(p rhumb.PartitionID, maxBytes int, get getter, seek func(*index.View) (func() (*index.Ref, error), error)) ([]Stored, error) {
	var err error
	for range maxReadAttempts {
		v, ok := sh.view(p)
		if !ok {
			return nil, nil
		}
		var refs []index.Ref
		if refs, err = gather(&v, maxBytes, seek); err == nil {
			var out []Stored
			if out, err = get(p, refs); err == nil {
				return out, nil
			}
		}
		if !stale(err) {
			return nil, fmt.Errorf("storage: shard %d partition %d: %w", sh.id, p, err)
		}
	}
	return nil, rhumb.Errorf(rhumb.KindUnavailable, "storage: shard %d partition %d: %w", sh.id, p, err)
}

func gather(v *index.View, maxBytes int, seek func(*index.View) (func() (*index.Ref, error), error)) ([]index.Ref, error) {
	next, err := seek(v)
	if err != nil {
		return nil, err
	}
	var refs []index.Ref
	for size := 0; ; {
		r, err := next()
		if err != nil {
			return nil, err
		}
		if r == nil {
			return refs, nil
		}
		size += int(r.Size)
		if len(refs) > 0 && size > maxBytes {
			return refs, nil
		}
		refs = append(refs, *r)
		if size >= maxBytes {
			return refs, nil
		}
	}
}

// fetch gets the bytes of refs: from memory, or from files in as few reads as
// their places allow. What comes before one that cannot be read is given.
func (sh *Shard) fetch(p rhumb.PartitionID, refs []index.Ref) ([]Stored, error) {
	raw, out := make([][]byte, len(refs)), make([]Stored, len(refs))
	if err := sh.fromMemory(refs, raw); err != nil {
		return nil, err
	}
	n, err := sh.fromFiles(p, refs, raw, out, sh.store.readAhead(refs, raw))
	return sh.untilBad(p, refs, out, n, err)
}

// fetchRaw is fetch with the envelopes' bytes, of all refs or of none.
func (sh *Shard) fetchRaw(p rhumb.PartitionID, refs []index.Ref) (out []Stored, raw [][]byte, err error) {
	raw, out = make([][]byte, len(refs)), make([]Stored, len(refs))
	if err := sh.fromMemory(refs, raw); err != nil {
		return nil, nil, err
	}
	if n, err := sh.fromFiles(p, refs, raw, out, sh.store.readAhead(refs, raw)); err != nil {
		return nil, nil, sh.store.noteDamage(sh.id, p, refs, n, err)
	}
	return out, raw, nil
}

// byPlace is fetch, but gives large batches that lie in files by their place.
func (sh *Shard) byPlace(p rhumb.PartitionID, refs []index.Ref) ([]Stored, error) {
	raw, out := make([][]byte, len(refs)), make([]Stored, len(refs))
	if err := sh.fromMemory(refs, raw); err != nil {
		return nil, err
	}
	direct := sh.store.readAhead(refs, raw)
	w := placer{store: sh.store}
	defer w.done()
	placed, bad := len(refs), error(nil)
	for i := range refs {
		if raw[i] != nil || refs[i].Size < MinPlace {
			continue
		}
		if direct != nil && direct[i] {
			var ok bool
			if out[i], ok = sh.store.placeInBlocks(p, &refs[i], blocks.Long); ok {
				continue
			}
		}
		if out[i], bad = w.open(p, &refs[i]); bad != nil {
			placed = i
			break
		}
	}
	n, err := sh.fromFiles(p, refs[:placed], raw, out, direct)
	if err == nil {
		err = bad
	}
	if err != nil {
		ReleasePlaces(out[n:])
	}
	got, err := sh.untilBad(p, refs, out, n, err)
	if err != nil {
		ReleasePlaces(out[:n])
	}
	return got, err
}

// untilBad gives the first n batches, which were read before err, if it says that the
// next one cannot be: one bad place on a disk hides nothing else.
func (sh *Shard) untilBad(p rhumb.PartitionID, refs []index.Ref, out []Stored, n int, err error) ([]Stored, error) {
	if err == nil {
		return out, nil
	}
	err = sh.store.noteDamage(sh.id, p, refs, n, err)
	if n == 0 || stale(err) {
		return nil, err
	}
	return out[:n], nil
}

// stale tells if an error says only that the view it came from is out of date.
func stale(err error) bool { return errors.Is(err, index.ErrGone) || errors.Is(err, errRetry) }

// ReleasePlaces releases the places of batches.
func ReleasePlaces(batches []Stored) {
	for i := range batches {
		if batches[i].Place != nil {
			batches[i].Place.Release()
		}
	}
}

// fromFiles reads what raw does not have yet, and opens all but those that have a
// place. Those that direct names are looked for in the cache of blocks. It gives how many
// of the first were read.
func (sh *Shard) fromFiles(p rhumb.PartitionID, refs []index.Ref, raw [][]byte, out []Stored, direct []bool) (n int, err error) {
	missing := func(i int) bool { return raw[i] == nil && out[i].Place == nil }
	good := len(refs)
	for i := 0; i < good; {
		if !missing(i) {
			i++
			continue
		}
		run := 1
		for i+run < len(refs) && missing(i+run) && joins(&refs[i], &refs[i+run-1], &refs[i+run]) {
			run++
		}
		if direct != nil && direct[i] && sh.store.runFromBlocks(p, refs[i:i+run], raw[i:i+run]) {
			i += run
			continue
		}
		var read int
		if read, err = sh.store.readRun(p, refs[i:i+run], raw[i:i+run]); err != nil {
			good = i + read
			break
		}
		i += run
	}
	for i := range refs[:good] {
		if out[i].Place != nil {
			continue
		}
		e, batch, bad := refs[i].Open(p, raw[i], false)
		if bad != nil {
			return i, bad
		}
		out[i] = Stored{Base: refs[i].Base, Envelope: e, Batch: batch}
	}
	return good, err
}

// fromMemory fills raw from the entries that memory holds, and lets the other refs
// name their file.
func (sh *Shard) fromMemory(refs []index.Ref, raw [][]byte) error {
	for i := range refs {
		r := &refs[i]
		if r.File != 0 {
			continue
		}
		data, loc, ok := sh.entries.lookup(r.Raft)
		switch {
		case !ok:
			return errRetry // its file settled meanwhile
		case data != nil:
			if r.Pos+uint64(r.Size) > uint64(len(data)) {
				return rhumb.Errorf(rhumb.KindCorrupt, "entry %d: %d bytes at %d do not fit its %d", r.Raft, r.Size, r.Pos, len(data))
			}
			raw[i] = data[r.Pos : r.Pos+uint64(r.Size)]
		default:
			r.File, r.Pos = loc.File, uint64(loc.Pos)+r.Pos
		}
	}
	return nil
}

// joins tells if next is read together with the run from first to last.
func joins(first, last, next *index.Ref) bool {
	end := last.Pos + uint64(last.Size)
	return next.File == last.File && next.Pos >= end && next.Pos-end <= maxReadGap &&
		next.Pos+uint64(next.Size)-first.Pos <= maxReadRun
}

// readRun reads batches that lie close together in one file, and gives how many of the
// first were read. The file is pinned, so that deletion does not take it away in the
// middle.
func (s *Store) readRun(p rhumb.PartitionID, refs []index.Ref, raw [][]byte) (n int, err error) {
	first, last := &refs[0], &refs[len(refs)-1]
	buf := make([]byte, last.Pos+uint64(last.Size)-first.Pos)
	err = s.readFile(first.File, int64(first.Pos), buf)
	switch {
	case err == nil:
		return openRun(p, refs, raw, buf)
	case len(refs) == 1 || stale(err):
		return 0, err
	}
	for n = range refs { // a disk may be unable to read a part of it only
		if _, err = s.readRun(p, refs[n:n+1], raw[n:n+1]); err != nil {
			return n, err
		}
	}
	return len(refs), nil
}

// readFile reads from a log file or a segment.
func (s *Store) readFile(file uint64, pos int64, buf []byte) error {
	if isSegment(file) {
		return s.readSegment(file, pos, buf)
	}
	err := s.log.ReadAt(commitlog.Location{File: file, Pos: pos, Len: uint32(len(buf))}, buf)
	if errors.Is(err, commitlog.ErrRemoved) {
		return errRetry
	}
	return err
}

// openRun takes the batches of a run apart and checks them. It gives how many of the
// first are whole.
func openRun(p rhumb.PartitionID, refs []index.Ref, raw [][]byte, buf []byte) (n int, err error) {
	for i := range refs {
		at := refs[i].Pos - refs[0].Pos
		raw[i] = buf[at : at+uint64(refs[i].Size) : at+uint64(refs[i].Size)]
		if _, _, err := refs[i].Open(p, raw[i], true); err != nil {
			return i, fmt.Errorf("file %016x at %d: %w", refs[i].File, refs[i].Pos, err)
		}
	}
	return len(refs), nil
}

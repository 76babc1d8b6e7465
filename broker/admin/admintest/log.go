package admintest

import (
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Log is one partition's log. Its fields are under the region's lock.
type Log struct {
	region  *Region
	ref     rhumb.PartitionRef
	state   admin.State
	gaps    []admin.Gap
	batches []stored
}

type stored struct {
	admin.Batch
	delta rhumb.Offset // last offset delta
}

func (b stored) lastLocal() rhumb.Offset { return b.Base + b.delta }

// Ref is where the log is.
func (l *Log) Ref() rhumb.PartitionRef { return l.ref }

// Life is the log's own life.
func (l *Log) Life() rhumb.Life { return l.state.Life }

// Publish appends records as one batch of the log's own life.
func (l *Log) Publish(records ...codec.PlainRecord) rhumb.Offset {
	batch := codec.BuildBatch(codec.NoSender, records)
	h, err := codec.CheckBatch(batch)
	if err != nil {
		panic(err) // a fault of the test
	}
	var base rhumb.Offset
	l.region.change(func() { base = l.own(batch, h) })
	return base
}

func (l *Log) own(batch []byte, h codec.BatchHeader) rhumb.Offset {
	base, last := l.state.End, l.state.End+rhumb.Offset(h.LastOffsetDelta)
	codec.PatchBatch(batch, base, 1)
	l.state.OwnChain = codec.NextChain(l.state.OwnChain, base, last, h.CRC)
	l.add(stored{admin.Batch{Region: l.region.Identity.Number, Life: l.state.Life, First: base, Last: last,
		Bytes: batch}, rhumb.Offset(h.LastOffsetDelta)})
	l.state.OwnLast = last
	return base
}

func (l *Log) add(b stored) {
	b.Base = l.state.End
	codec.PatchBatch(b.Bytes, b.Base, 1)
	l.batches = append(l.batches, b)
	l.state.End = b.lastLocal() + 1
	l.state.Flushed = l.state.End
	l.state.Bytes += int64(len(b.Bytes))
}

// Batches gives copies of the stored batches.
func (l *Log) Batches() []admin.Batch {
	l.region.mu.Lock()
	defer l.region.mu.Unlock()
	var out []admin.Batch
	for _, b := range l.batches {
		c := b.Batch
		c.Bytes = slices.Clone(c.Bytes)
		out = append(out, c)
	}
	return out
}

// Receive appends a batch of another origin as a link would, and moves the
// origin's watermark to its last offset, whatever it was.
func (l *Log) Receive(b admin.Batch) {
	h, err := codec.ParseBatch(b.Bytes)
	if err != nil {
		panic(err) // a fault of the test
	}
	b.Bytes = slices.Clone(b.Bytes)
	l.region.change(func() {
		l.add(stored{b, rhumb.Offset(h.LastOffsetDelta)})
		o := l.origin(b.Region, b.Life)
		o.Watermark = max(o.Watermark, b.Last)
		o.Chain = codec.NextChain(o.Chain, b.First, b.Last, h.CRC)
	})
}

// CopyFrom receives all batches that another log published itself and that end above
// what is accounted for here, then skips to the end that it had.
func (l *Log) CopyFrom(from *Log) {
	st, _ := from.region.State(from.ref)
	var have rhumb.Offset
	l.region.change(func() { have = l.origin(from.region.Identity.Number, st.Life).Watermark })
	for _, b := range from.Batches() {
		if b.Life == st.Life && b.Last > have && b.Last < st.End {
			l.Receive(b)
		}
	}
	l.region.change(func() {
		o := l.origin(from.region.Identity.Number, st.Life)
		o.Watermark = max(o.Watermark, st.End-1)
	})
}

// RelayFrom receives all batches of another log that are not of this log's life and
// end above what is accounted for here, whoever published them.
func (l *Log) RelayFrom(from *Log) {
	for _, b := range from.Batches() {
		var have rhumb.Offset
		l.region.change(func() {
			if have = b.Last; b.Life != l.state.Life {
				have = l.origin(b.Region, b.Life).Watermark
			}
		})
		if b.Last > have {
			l.Receive(b)
		}
	}
}

// Rebuild has the log begin again with nothing, under another life.
func (l *Log) Rebuild() {
	l.region.change(func() {
		life := l.state.Life
		life[len(life)-1]++
		l.state, l.gaps, l.batches = admin.State{Life: life, LeaderEpoch: 1, OwnLast: rhumb.NoOffset}, nil, nil
	})
}

func (l *Log) origin(region rhumb.RegionNumber, life rhumb.Life) *admin.Origin {
	for i := range l.state.Origins {
		if o := &l.state.Origins[i]; o.Region == region && o.Life == life {
			return o
		}
	}
	l.state.Origins = append(l.state.Origins, admin.Origin{Region: region, Life: life,
		Watermark: rhumb.NoOffset, Floor: rhumb.NoOffset})
	return &l.state.Origins[len(l.state.Origins)-1]
}

// Account raises watermark and floor of another log's own life, as a skip does.
func (l *Log) Account(from *Log, watermark, floor rhumb.Offset) {
	chain := from.chainAt(watermark)
	l.region.change(func() {
		o := l.origin(from.region.Identity.Number, from.state.Life)
		if watermark >= o.Watermark {
			o.Watermark, o.Chain = watermark, chain
		}
		o.Floor = max(o.Floor, floor)
	})
}

// chainAt gives the chain value of the log's own life at an offset.
func (l *Log) chainAt(offset rhumb.Offset) (chain uint64) {
	for _, b := range l.Batches() {
		if h, err := codec.ParseBatch(b.Bytes); err == nil && b.Life == l.state.Life && b.Last <= offset {
			chain = codec.NextChain(chain, b.First, b.Last, h.CRC)
		}
	}
	return chain
}

// Gap stores a gap record for another log's own life, and moves floor and
// watermark past it.
func (l *Log) Gap(from *Log, first, last rhumb.Offset, reason rhumb.Reason) {
	l.region.change(func() {
		l.gaps = append(l.gaps, admin.Gap{Region: from.region.Identity.Number, Life: from.state.Life, From: first, To: last,
			Reason: reason, At: 1_700_000_000_000})
	})
	l.Account(from, last, last)
}

// Trim moves the log start, as retention does, and each origin's floor to the
// last of its offsets that is dropped.
func (l *Log) Trim(start rhumb.Offset) {
	l.region.change(func() {
		l.state.LogStart = start
		l.batches = slices.DeleteFunc(l.batches, func(b stored) bool {
			if b.Life != l.state.Life && b.Base < start {
				o := l.origin(b.Region, b.Life)
				o.Floor = max(o.Floor, min(b.Last, b.First+start-1-b.Base))
			}
			return b.lastLocal() < start
		})
	})
}

// Tamper replaces the stored batches by what fn makes of them, and nothing
// else: watermarks stay. Base offsets are given anew, from the log start on.
func (l *Log) Tamper(fn func([]admin.Batch) []admin.Batch) {
	batches := fn(l.Batches())
	l.region.change(func() {
		l.batches = nil
		at := l.state.LogStart
		for _, b := range batches {
			h, err := codec.ParseBatch(b.Bytes)
			if err != nil {
				panic(err) // a fault of the test
			}
			b.Base = at
			codec.PatchBatch(b.Bytes, at, 1)
			s := stored{b, rhumb.Offset(h.LastOffsetDelta)}
			l.batches = append(l.batches, s)
			at = s.lastLocal() + 1
		}
		l.state.End = max(l.state.End, at)
		l.state.Flushed = l.state.End
	})
}

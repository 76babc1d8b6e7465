package verify

import (
	"context"
	"errors"
	"io"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// gone reports whether the job's life is one that its region has no more.
func (j *job) gone() bool { return j.m.gone[place{j.partition, j.key}] }

// countAlone counts what a side holds above an offset of a life of which nothing
// more goes from region to region, and the other side does not: under no life of that
// region, since an origin whose life was closed may have named the same records anew.
// What the side has dropped is not counted: the other one does not lack that.
func (j *job) countAlone(ctx context.Context, i int, above rhumb.Offset) error {
	tail := Range{above + 1, j.at[i].Watermark}
	if tail.To < tail.From {
		return nil
	}
	alone, err := j.shared(ctx, i, tail, nil)
	if err != nil {
		return err
	}
	for _, o := range j.m.follow[1-i].Logs[j.partition].Origins {
		if o.Region != j.key.region || alone == 0 {
			continue
		}
		n, err := j.shared(ctx, i, tail, &life{o.Region, o.Life})
		if err != nil {
			return err
		}
		alone = max(0, alone-n) // no batch is in a log under two lives
	}
	if alone > 0 {
		if j.out.Alone == nil {
			j.out.Alone = map[string]int64{}
		}
		j.out.Alone[j.r.names[i]] += alone
	}
	return nil
}

// shared counts the records that a side holds in a range of the job's life and the
// other side under a life that may be another one; nil: all of the side's. It reads
// two digests at once, whatever the number of lives: a region makes few at a time.
func (j *job) shared(ctx context.Context, i int, tail Range, under *life) (records int64, err error) {
	its, err := j.opener(i)(ctx, tail.From, tail.To, false)
	if err != nil {
		return 0, err
	}
	defer its.Close()
	var other follower
	if under != nil {
		if other.stream, err = j.openerOf(1-i, *under)(ctx, tail.From, tail.To, false); err != nil {
			return 0, err
		}
		defer other.stream.Close()
	}
	for {
		b, err := nextBatch(its)
		if b == nil || err != nil {
			return records, err
		}
		if under != nil {
			if has, err := other.has(b); err != nil {
				return 0, err
			} else if !has {
				continue
			}
		}
		whole := Range{b.First, b.Last}
		records += max(0, share(whole, Range{max(whole.From, tail.From), min(whole.To, tail.To)}, int64(b.Count)))
	}
}

// follower looks batches up in a digest, in rising order.
type follower struct {
	stream Stream
	head   *api.DigestBatch
	ended  bool
}

// has reports whether the digest holds the same batch at the same offsets.
func (f *follower) has(b *api.DigestBatch) (bool, error) {
	for !f.ended && (f.head == nil || f.head.First < b.First) {
		next, err := nextBatch(f.stream)
		if err != nil {
			return false, err
		}
		f.head, f.ended = next, next == nil
	}
	return f.head != nil && sameBatch(*f.head, *b), nil
}

// nextBatch gives the next batch of a digest, nil at its end.
func nextBatch(s Stream) (*api.DigestBatch, error) {
	for {
		line, err := s.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case line.Batch != nil:
			return line.Batch, nil
		}
	}
}

// skip concludes a life of which nothing can be compared.
func (j *job) skip() {
	j.out.State = Skipped
	if len(j.out.Alone) > 0 {
		j.out.State = Incomplete
	}
	j.r.report.add(j.out)
}

package verify

import (
	"context"
	"fmt"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// carried reports whether the edges bring the job's records to a side: from their
// origin, over edges that forward where more than one is needed; and what a region
// published before it was rebuilt back to it, from the other side. So it is with
// those of a region that was removed, over the edges that bring such records.
func (j *job) carried(to int) bool {
	if j.removed() {
		return inherits(j.r.edges, j.topic, j.r.info[1-to].Name, j.r.info[to].Name)
	}
	from := j.out.Name
	if j.key.region == j.r.info[to].Number {
		from = j.r.info[1-to].Name
	}
	return flows(j.r.edges, j.topic, from, j.r.info[to].Name)
}

// removed reports whether the job's origin is a region that the mesh has no more.
func (j *job) removed() bool { return j.out.Name == "" }

// inherits reports whether edges bring what a region holds of a removed one to another.
func inherits(edges api.EdgeList, t rhumb.Topic, from, to rhumb.RegionName) bool {
	return spreads(edges, t, from, to, func(e api.Edge) bool { return e.Forward || e.Gone })
}

// behind counts what one side holds and the other one does not account for: it is
// late if an edge brings it, else it is not compared.
func (j *job) behind(ctx context.Context) error {
	for i := range j.at {
		if j.at[1-i].LastRecord <= j.at[i].Watermark || i == j.source {
			continue
		}
		switch {
		case j.gone() && j.carried(i): // what it lacks will not come
			j.out.Note = fmt.Sprintf("an earlier life of %s, which has it no more: no link brings the rest of it from one to the other", j.originName())
			return j.countAlone(ctx, 1-i, j.at[i].Watermark)
		case j.carried(i):
			return j.countLate(ctx, i, j.at[i].Watermark)
		case j.key.region == j.r.info[i].Number:
			return j.countAlone(ctx, 1-i, j.at[i].Watermark)
		case j.removed() && j.at[i].Watermark >= 0: // it got some of it, and nothing brings the rest
			j.out.Note = fmt.Sprintf("%s, which was removed: no edge brings the rest of it to %s", j.originName(), j.r.names[i])
			return j.countAlone(ctx, 1-i, j.at[i].Watermark)
		}
		n, err := j.held(ctx, 1-i, j.at[i].Watermark)
		if err == nil && n > 0 {
			j.out.Uncarried = map[string]int64{j.r.names[i]: n}
		}
		return err
	}
	return nil
}

// countLate counts the records above an offset that a side does not account for yet
// and the other one holds. What that has dropped will be a gap, and is not late.
func (j *job) countLate(ctx context.Context, lacks int, above rhumb.Offset) error {
	j.owed = true
	n, err := j.held(ctx, 1-lacks, above)
	if err == nil && n > 0 {
		j.out.Late = map[string]int64{j.r.names[lacks]: n}
	}
	return err
}

// held counts the records that a side holds of the job's life above an offset, up to
// the last one that it had when the watermarks were taken.
func (j *job) held(ctx context.Context, i int, above rhumb.Offset) (records int64, err error) {
	tail := Range{above + 1, j.at[i].LastRecord}
	its, err := j.r.sides[i].Digest(ctx, api.DigestQuery{Topic: j.topic, Partition: int32(j.partition),
		Log: j.m.follow[i].Logs[j.partition].Life, Region: j.key.region, Life: j.key.life, From: tail.From, To: tail.To, Seek: true})
	if err != nil {
		return 0, err
	}
	defer its.Close()
	for {
		b, err := nextBatch(its)
		if b == nil || err != nil {
			return records, err
		}
		part := Range{max(b.First, tail.From), min(b.Last, tail.To)}
		records += max(0, share(Range{b.First, b.Last}, part, int64(b.Count))-int64(b.Dropped))
	}
}

// returning reports whether the job's life is an earlier one of the side that is
// late: it comes back to its region, which does not hold the same until it has all.
func (j *job) returning() bool {
	for i := range j.at {
		if j.out.Late[j.r.names[i]] > 0 && j.key.region == j.r.info[i].Number {
			return true
		}
	}
	return false
}

// noteUncarried says, where nothing else is said, what no edge carries.
func (j *job) noteUncarried() {
	if j.out.Note == "" && len(j.out.Uncarried) > 0 {
		j.out.Note = j.uncarriedNote()
	}
}

// uncarriedNote tells what is not compared since no edge leads that way.
func (j *job) uncarriedNote() string {
	for i, region := range j.r.names {
		if n := j.out.Uncarried[region]; n > 0 {
			return fmt.Sprintf("%d records of %s that %s has are not compared: no edge carries them to %s", n, j.originName(), j.r.names[1-i], region)
		}
	}
	return ""
}

package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxTries is how often an origin life is compared because retention moved and
// dropped more ranges than are kept.
const maxTries = 3

// job compares one origin life of one partition.
type job struct {
	r         *runner
	topic     rhumb.Topic
	partition int
	key       life
	m         measured
	strict    bool // late is unknown: the caller waited for it in vain

	at     [2]api.Origin   // what each side accounts for
	source int             // the side whose own life it is, -1 if neither
	owed   bool            // an edge has something to bring of it
	floors [2]rhumb.Offset // what each side vouched for nothing up to when it was measured
	out    Origin
}

func (j *job) run(ctx context.Context) error {
	j.out = Origin{Topic: j.topic.String(), Partition: int32(j.partition), Region: j.key.region, Life: j.key.life,
		Compared: Range{0, -1}, Findings: []Finding{}, Explained: []Explained{}}
	known := j.figures()
	j.floors = [2]rhumb.Offset{j.at[0].Floor, j.at[1].Floor}
	if known != [2]bool{true, true} {
		return j.oneSided(ctx, known)
	}
	if err := j.behind(ctx); err != nil {
		return err
	}
	hi := min(j.at[0].Watermark, j.at[1].Watermark)
	if end, is := j.m.ends[place{j.partition, j.key}]; is && max(j.at[0].Watermark, j.at[1].Watermark) > end {
		hi = min(hi, end)
		j.out.Note = fmt.Sprintf("an earlier life of %s, closed at offset %d: what lies behind that is not compared", j.originName(), end)
		for i := range j.at {
			if err := j.countAlone(ctx, i, end); err != nil {
				return err
			}
		}
		if hi < 0 {
			j.skip()
			return nil
		}
	}
	if hi < 0 && j.gone() {
		j.noteUncarried()
		j.skip()
		return nil
	}
	if hi < 0 {
		j.nothingYet()
		return nil
	}
	for try := 1; ; try++ {
		t, err := j.compare(ctx, hi)
		if err != nil {
			return err
		}
		whole := true
		if len(t.found) > 0 || t.records == 0 {
			if err := j.refresh(ctx); err != nil {
				return err
			}
			whole = t.refloor([2]rhumb.Offset{j.at[0].Floor, j.at[1].Floor})
		}
		if !whole && try < maxTries {
			continue
		}
		j.conclude(t, hi, whole)
		return nil
	}
}

// figures picks what each side accounts for of the life. Where it is one side's
// own, that side's figures are the later ones.
func (j *job) figures() (known [2]bool) {
	j.source = -1
	for i := range j.at {
		j.at[i], known[i] = origin(j.m.follow[i], j.partition, j.key)
		if known[i] && (j.at[i].Own || j.at[i].Closed) {
			j.source = i
		}
		if known[i] && j.at[i].RegionName != "" {
			j.out.Name = j.at[i].RegionName
		}
	}
	if j.source >= 0 {
		if later, still := origin(j.m.lead[j.source], j.partition, j.key); still {
			j.at[j.source] = later
		}
	}
	return known
}

// oneSided tells of a life that one side has never heard of.
func (j *job) oneSided(ctx context.Context, known [2]bool) error {
	has := 0
	if known[1] {
		has = 1
	}
	lacks := 1 - has
	lacking := j.r.info[lacks]
	last := j.at[has].LastRecord
	switch {
	case last < 0:
		return nil // nothing was ever published in it
	case j.key.region == lacking.Number || j.gone() && j.carried(lacks):
		j.out.Note = fmt.Sprintf("an earlier life of %s: %s holds nothing of it, and no link brings it there", j.originName(), lacking.Name)
		if j.key.region == lacking.Number && j.carried(lacks) {
			j.out.Note = fmt.Sprintf("an earlier life of %s: %s holds nothing of it yet; if it was replaced, the edges that lead to it bring it back, if the topic was deleted and made again there alone, nothing does", j.originName(), lacking.Name)
		}
		if err := j.countAlone(ctx, has, rhumb.NoOffset); err != nil {
			return err
		}
		j.skip()
		return nil
	case !j.carried(lacks):
		j.out.State, j.out.NoEdgeTo = Skipped, lacking.Name
		j.out.Note = fmt.Sprintf("no edge brings records of %s to %s", j.originName(), lacking.Name)
		if j.removed() {
			n, err := j.held(ctx, has, rhumb.NoOffset)
			if err != nil {
				return err
			}
			if n > 0 {
				j.out.Uncarried = map[string]int64{j.r.names[lacks]: n}
				j.out.Note = j.uncarriedNote()
			}
		}
	default:
		j.out.State = Unknown
		if err := j.countLate(ctx, lacks, rhumb.NoOffset); err != nil {
			return err
		}
		if j.empty(has) {
			return nil
		}
		j.out.Note = fmt.Sprintf("nothing of it has reached %s yet: see 'rhumb link list', or use --wait", lacking.Name)
	}
	j.r.report.add(j.out)
	return nil
}

func (j *job) originName() string {
	if j.out.Name == "" {
		return fmt.Sprintf("region number %d", j.key.region)
	}
	return string(j.out.Name)
}

// empty reports whether a side knows that nothing was published in the life as far
// as it accounts for it, after what the other side lacks was counted: a region whose
// log holds only what others published says so to each peer at a time of its own.
func (j *job) empty(has int) bool {
	return len(j.out.Late)+len(j.out.Alone)+len(j.out.Uncarried) == 0 && has != j.source && j.at[has].Floor < 0
}

// nothingYet tells of a life of which one side accounts for nothing.
func (j *job) nothingYet() {
	has := 0
	if j.at[1].LastRecord >= 0 {
		has = 1
	}
	if j.at[has].LastRecord < 0 || j.empty(has) {
		return // nobody may have asked for it
	}
	j.out.State = Unknown
	j.out.Note = "nothing of it has arrived yet: see 'rhumb link list', or use --wait"
	if len(j.out.Uncarried) > 0 {
		j.out.State, j.out.Note = Skipped, j.uncarriedNote()
	}
	j.r.report.add(j.out)
}

// compare walks both digests up to hi.
func (j *job) compare(ctx context.Context, hi rhumb.Offset) (*tally, error) {
	t := newTally(j.r.names, j.source)
	c := comparison{to: hi, span: maxSpan, note: t}
	for i, side := range j.r.sides {
		t.floors[i] = j.at[i].Floor
		t.compacted = t.compacted || compacts(j.m.follow[i].Configs["cleanup.policy"])
		gaps, err := side.Gaps(ctx, j.topic)
		if err != nil {
			return nil, err
		}
		for _, g := range gaps {
			if g.Partition == int32(j.partition) && g.Region == j.key.region && g.Life == j.key.life {
				t.gaps[i] = append(t.gaps[i], g)
			}
		}
		c.open[i] = j.opener(i)
	}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	t.finish()
	return t, nil
}

func (j *job) opener(i int) opener { return j.openerOf(i, j.key) }

func (j *job) openerOf(i int, key life) opener {
	return func(ctx context.Context, from, to rhumb.Offset, records bool) (Stream, error) {
		return j.r.sides[i].Digest(ctx, api.DigestQuery{Topic: j.topic, Partition: int32(j.partition),
			Log: j.m.follow[i].Logs[j.partition].Life, Region: key.region, Life: key.life,
			From: from, To: to, Records: records, Seek: records})
	}
}

// refresh takes the floors again: what seemed to be missing may just have been
// dropped. The watermarks that were taken first stay.
func (j *job) refresh(ctx context.Context) error {
	for i, side := range j.r.sides {
		d, err := side.Describe(ctx, j.topic)
		if err != nil {
			return err
		}
		now, still := origin(d, j.partition, j.key)
		if !still {
			return rhumb.Errorf(rhumb.KindNotFound, "partition %d has another life in region %s now", j.partition, j.r.names[i])
		}
		j.at[i].Floor = max(j.at[i].Floor, now.Floor)
	}
	return nil
}

// overtakers names the regions whose retention moved since the life was measured.
func (j *job) overtakers() string {
	var all []string
	for i, floor := range j.floors {
		if j.at[i].Floor > floor {
			all = append(all, j.r.names[i])
		}
	}
	return strings.Join(all, " and ")
}

// onlyLost reports whether all that was found may be what retention dropped meanwhile.
func onlyLost(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Kind != Missing && f.Kind != Extra })
}

// conclude tells the result. whole: what retention dropped meanwhile is known range by range.
func (j *job) conclude(t *tally, hi rhumb.Offset, whole bool) {
	j.ahead(t)
	if hi == j.at[0].Watermark && hi == j.at[1].Watermark && j.at[0].Chain != j.at[1].Chain {
		t.finding(j.copySide(), Different).Detail = fmt.Sprintf("chain values at offset %d are %s and %s", hi, j.at[0].Chain, j.at[1].Chain)
	}
	j.out.Findings, j.out.Explained = t.results()
	for i, n := range t.alone {
		if n == 0 {
			continue
		}
		if j.out.Alone == nil {
			j.out.Alone = map[string]int64{}
		}
		j.out.Alone[j.r.names[i]] += n
		j.out.Note = fmt.Sprintf("copies of what %s published differ, and an operator left them so: see 'rhumb gap list'", j.originName())
	}
	j.out.Records = t.records
	j.out.Compared = Range{max(j.at[0].Floor, j.at[1].Floor) + 1, hi}
	by := j.overtakers()
	switch {
	case by != "" && (!whole && onlyLost(j.out.Findings) || t.records == 0 && len(j.out.Findings) == 0 && len(j.out.Explained) > 0):
		j.out.State, j.out.Overtaken = Unknown, true
		j.out.Note = fmt.Sprintf("retention in %s overtook the comparison, and dropped what was being compared: run it again, or with a longer retention of the topic if that does not help", by)
	case len(j.out.Findings) > 0:
		j.out.State = Differs
	case t.records == 0 && len(j.out.Explained) > 0:
		j.out.State = Unknown
		j.out.Note = "nothing to compare: what one region holds, the other has dropped or never had"
	case j.strict && j.owed:
		j.out.State = Unknown
		j.out.Note = "still late after the time given with --wait"
	case j.returning():
		j.out.State = Unknown
		j.out.Note = fmt.Sprintf("an earlier life of %s that is on its way back to it", j.originName())
	case len(j.out.Alone) > 0:
		j.out.State = Incomplete
	default:
		j.out.State = Equal
	}
	j.noteUncarried()
	j.r.report.add(j.out)
}

// copySide is the side that received the life, B if both did.
func (j *job) copySide() int {
	if j.source == 1 {
		return 0
	}
	return 1
}

// ahead tells of a copy that accounts for more than the origin has: it diverged.
func (j *job) ahead(t *tally) {
	if j.source < 0 {
		return
	}
	end, other := j.at[j.source].Watermark, 1-j.source
	over := j.at[other].Watermark
	if over > end && !j.at[j.source].Closed {
		f := t.finding(other, Extra)
		f.add(Range{end + 1, over}, int64(over-end))
		f.Detail = "it accounts for more than the origin has written: the two have diverged"
	}
}

func compacts(policy string) bool {
	return policy == "compact" || policy == "compact,delete" || policy == "delete,compact"
}

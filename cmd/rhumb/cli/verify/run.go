package verify

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Source is what a comparison asks of each region.
type Source interface {
	Region(ctx context.Context) (api.Region, error)
	Edges(ctx context.Context) (api.EdgeList, error)
	Topics(ctx context.Context) ([]api.Topic, error)
	Describe(ctx context.Context, t rhumb.Topic) (api.TopicDetail, error)
	Gaps(ctx context.Context, t rhumb.Topic) ([]api.Gap, error)
	Digest(ctx context.Context, q api.DigestQuery) (Stream, error)
}

// Client makes a Source of an API client.
func Client(c *client.Client) Source { return remote{c} }

type remote struct{ *client.Client }

func (r remote) Edges(ctx context.Context) (api.EdgeList, error) { return r.Client.EdgeList(ctx) }

func (r remote) Digest(ctx context.Context, q api.DigestQuery) (Stream, error) {
	return r.Client.Digest(ctx, q)
}

// Options say what to compare.
type Options struct {
	A, B Source
	// Topics to compare. Empty: all topics of the namespaces that flow between A
	// and B, or to both from a third region.
	Topics []rhumb.Topic
	// Wait is how long to wait until each side accounts for what the other had
	// when the comparison started. What is late after that is unknown. Zero: what
	// is late is only shown.
	Wait time.Duration
	// Third gives another region, to ask which of its earlier lives it closed.
	// Nil, or an error: nothing is known of them.
	Third func(ctx context.Context, name rhumb.RegionName) (Source, error)
}

// waitStep is how often watermarks are looked at while waiting.
const waitStep = 200 * time.Millisecond

// Run compares two regions. An error means that nothing is known: a region could
// not be reached, or the two cannot be compared.
func Run(ctx context.Context, o Options) (Report, error) {
	r := runner{opt: o, sides: [2]Source{o.A, o.B}}
	for i, side := range r.sides {
		info, err := side.Region(ctx)
		if err != nil {
			return Report{}, err
		}
		r.info[i] = info
		r.names[i] = string(info.Name)
		r.sides[i] = named{side, r.names[i]}
	}
	a, b := r.info[0], r.info[1]
	switch {
	case a.Number == b.Number:
		return Report{}, rhumb.Errorf(rhumb.KindInvalid, "both addresses are region %s: give two regions", a.Name)
	case a.Mesh != b.Mesh:
		return Report{}, rhumb.Errorf(rhumb.KindInvalid, "region %s is of mesh %s, %s is of mesh %s: they share nothing", a.Name, a.Mesh, b.Name, b.Mesh)
	}
	edges, err := o.A.Edges(ctx)
	if err != nil {
		return Report{}, err
	}
	r.edges = edges
	r.report = Report{A: r.names[0], B: r.names[1], State: Equal, Origins: []Origin{}, Problems: []Problem{}}
	topics, err := r.awaitTopics(ctx)
	if err != nil {
		return Report{}, err
	}
	if len(topics) == 0 {
		r.report.problem("", "there is no topic in a namespace that flows between %s and %s, or to both from a third region: compare a region with one that it sends to, as 'rhumb topology show' has it", r.names[0], r.names[1])
	}
	for _, t := range topics {
		if err := r.topic(ctx, t); err != nil {
			return r.report, err
		}
		r.unrelated(t.name)
	}
	return r.report, nil
}

// unrelated tells of a topic that holds records in one of the regions or both, none of
// which any edge brings to the other, as between two sources of a fan-in: that proves
// nothing.
func (r *runner) unrelated(t rhumb.Topic) {
	of := slices.DeleteFunc(slices.Clone(r.report.Origins), func(o Origin) bool { return o.Topic != t.String() })
	if len(of) == 0 || r.shared(t) || slices.ContainsFunc(of, func(o Origin) bool { return o.NoEdgeTo == "" }) {
		return
	}
	r.report.problem(t.String(), "no edge leads between %s and %s, or to both from a third region, so that nothing of it is compared: compare a region with one that it sends to, as 'rhumb topology show' has it",
		r.names[0], r.names[1])
}

type runner struct {
	opt    Options
	sides  [2]Source
	info   [2]api.Region
	names  [2]string
	edges  api.EdgeList
	report Report
}

// pair is a topic as both sides list it; nil where it is not.
type pair struct {
	name rhumb.Topic
	at   [2]*api.Topic
	like string // topics that may have been meant, where it is in neither
}

// awaitTopics gives the topics to compare, after each side has all that the
// other had, if there is a time to wait for that.
func (r *runner) awaitTopics(ctx context.Context) ([]pair, error) {
	deadline := time.NewTimer(r.opt.Wait)
	defer deadline.Stop()
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	for {
		topics, err := r.topics(ctx)
		if err != nil || !slices.ContainsFunc(topics, pair.oneSided) {
			return topics, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-deadline.C:
			return topics, nil
		case <-tick.C:
		}
	}
}

// oneSided reports whether a side has yet to hear of the topic, its deletion or
// all of its partitions.
func (p pair) oneSided() bool {
	a, b := p.at[0], p.at[1]
	return a == nil || b == nil || a.Deletions != b.Deletions || a.Partitions != b.Partitions
}

// topics gives the topics to compare, by name.
func (r *runner) topics(ctx context.Context) ([]pair, error) {
	all := map[rhumb.Topic]*pair{}
	for _, t := range r.opt.Topics {
		all[t] = &pair{name: t}
	}
	var known []api.Topic
	for i, side := range r.sides {
		list, err := side.Topics(ctx)
		if err != nil {
			return nil, err
		}
		known = append(known, list...)
		for _, t := range list {
			name, err := rhumb.ParseTopic(t.Topic)
			if err != nil {
				return nil, err
			}
			p := all[name]
			if p == nil && len(r.opt.Topics) == 0 && r.shared(name) {
				p = &pair{name: name}
				all[name] = p
			}
			if p != nil {
				p.at[i] = &t
			}
		}
	}
	var out []pair
	for _, p := range all {
		if p.at == [2]*api.Topic{} {
			p.like = nearest.Hint(p.name.Short(), known, shortName)
		}
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y pair) int { return cmp.Compare(x.name.String(), y.name.String()) })
	return out, nil
}

// shared reports whether the topic's namespace brings the same records to both
// regions.
func (r *runner) shared(t rhumb.Topic) bool {
	a, b := r.info[0].Name, r.info[1].Name
	if flows(r.edges, t, a, b) || flows(r.edges, t, b, a) {
		return true
	}
	for _, e := range r.edges.Edges {
		if e.From != a && e.From != b && flows(r.edges, t, e.From, a) && flows(r.edges, t, e.From, b) {
			return true
		}
	}
	return false
}

// flows reports whether records published in one region are meant to reach
// another: over one edge, then over any that forward.
func flows(edges api.EdgeList, t rhumb.Topic, from, to rhumb.RegionName) bool {
	return spreads(edges, t, from, to, func(e api.Edge) bool { return e.From == from || e.Forward })
}

// spreads reports whether edges of a topic that carry something lead from one region
// to another.
func spreads(edges api.EdgeList, t rhumb.Topic, from, to rhumb.RegionName, carries func(api.Edge) bool) bool {
	var own rhumb.TopicName
	if slices.Contains(edges.OwnTopology, t.String()) {
		own = t.Name
	}
	reached := map[rhumb.RegionName]bool{from: true}
	for grown := true; grown; {
		grown = false
		for _, e := range edges.Edges {
			if e.Tenant != t.Tenant || e.Namespace != t.Namespace || e.Topic != own || !reached[e.From] || reached[e.To] {
				continue
			}
			if carries(e) {
				reached[e.To], grown = true, true
			}
		}
	}
	return from != to && reached[to]
}

// shortName is a topic's name as people type it.
func shortName(t *api.Topic) string {
	name, err := rhumb.ParseTopic(t.Topic)
	if err != nil {
		return t.Topic
	}
	return name.Short()
}

// topic compares one topic. It returns only errors that end the whole comparison.
func (r *runner) topic(ctx context.Context, p pair) error {
	name := p.name.Short()
	for i, t := range p.at {
		if t == nil {
			if p.at[1-i] == nil { // of both: it was asked for by name
				r.report.problem(name, "is in neither region%s: see what there is with 'rhumb topic list'", p.like)
				return nil
			}
			r.report.problem(name, "is not in region %s: it is not created there yet, not replicated to it, or deleted there alone", r.names[i])
			return nil
		}
	}
	if p.at[0].Deletions != p.at[1].Deletions {
		r.report.problem(name, "was deleted and made again, which one region has not heard yet (deletion counts %d and %d): try again",
			p.at[0].Deletions, p.at[1].Deletions)
		return nil
	}
	r.report.Topics++
	err := r.partitions(ctx, p)
	if k := rhumb.KindOf(err); err != nil && (k == rhumb.KindNotFound || k == rhumb.KindFenced) {
		r.report.problem(name, "changed while it was compared: %v", err)
		return nil
	}
	if rhumb.KindOf(err) == rhumb.KindCorrupt {
		r.report.problem(name, "cannot be read as a whole: %v", err)
		return nil
	}
	return err
}

func (r *runner) partitions(ctx context.Context, p pair) error {
	m, caughtUp, err := r.settled(ctx, p.name)
	if err != nil {
		return err
	}
	m.fate = r.earlier(ctx, p.name, m)
	for n := range max(len(m.follow[0].Logs), len(m.follow[1].Logs)) {
		if !r.bothReady(m, p.name, n) {
			continue
		}
		for _, key := range m.lives(n) {
			j := job{r: r, topic: p.name, partition: n, key: key, m: m, strict: r.opt.Wait > 0 && !caughtUp}
			if err := j.run(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *runner) bothReady(m measured, t rhumb.Topic, n int) bool {
	for i, d := range m.follow {
		if n >= len(d.Logs) || n >= len(m.lead[i].Logs) || !d.Logs[n].Ready || !m.lead[i].Logs[n].Ready {
			r.report.problem(t.Short(), "partition %d is not open in region %s yet", n, r.names[i])
			return false
		}
	}
	return true
}

// measured is a topic's figures on both sides. What is read of the side that
// receives is older than what is read of the side that sends, so that traffic
// in between never makes the receiver look ahead.
type measured struct {
	follow [2]api.TopicDetail // read first
	lead   [2]api.TopicDetail // read after the other side's follow
	fate                      // set once
}

// measure reads A, B, A: B once is after the first A and before the second.
func (r *runner) measure(ctx context.Context, t rhumb.Topic) (m measured, err error) {
	if m.follow[0], err = r.sides[0].Describe(ctx, t); err != nil {
		return m, err
	}
	if m.follow[1], err = r.sides[1].Describe(ctx, t); err != nil {
		return m, err
	}
	m.lead[1] = m.follow[1]
	m.lead[0], err = r.sides[0].Describe(ctx, t)
	return m, err
}

// life identifies an origin life.
type life struct {
	region rhumb.RegionNumber
	life   rhumb.Life
}

// lives gives all lives that either side knows of a partition, in a fixed order.
func (m measured) lives(n int) []life {
	set := map[life]bool{}
	for i := range m.follow {
		for _, o := range m.follow[i].Logs[n].Origins {
			set[life{o.Region, o.Life}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(x, y life) int {
		return cmp.Or(cmp.Compare(x.region, y.region), cmp.Compare(x.life.String(), y.life.String()))
	})
}

// origin finds a life in a partition's figures.
func origin(d api.TopicDetail, n int, key life) (api.Origin, bool) {
	if n >= len(d.Logs) {
		return api.Origin{}, false
	}
	for _, o := range d.Logs[n].Origins {
		if o.Region == key.region && o.Life == key.life {
			return o, true
		}
	}
	return api.Origin{}, false
}

// settled measures a topic after the wait, if there is a time for one; false if that
// was over first. A life that began meanwhile is waited for, too: one side has heard of
// it before the other.
func (r *runner) settled(ctx context.Context, t rhumb.Topic) (measured, bool, error) {
	start, err := r.measure(ctx, t)
	if err != nil || r.opt.Wait <= 0 {
		return start, true, err
	}
	deadline := time.NewTimer(r.opt.Wait)
	defer deadline.Stop()
	for {
		start.fate = r.earlier(ctx, t, start)
		caughtUp, err := r.await(ctx, t, start, deadline.C)
		if err != nil {
			return start, false, err
		}
		now, err := r.measure(ctx, t)
		if err != nil || !caughtUp || !now.hasMore(start) {
			return now, caughtUp, err
		}
		start = now
	}
}

// hasMore reports whether a side knows of a life that neither knew of before.
func (m measured) hasMore(before measured) bool {
	for n := range min(len(m.follow[0].Logs), len(m.follow[1].Logs), len(before.follow[0].Logs), len(before.follow[1].Logs)) {
		if known := before.lives(n); slices.ContainsFunc(m.lives(n), func(l life) bool { return !slices.Contains(known, l) }) {
			return true
		}
	}
	return false
}

// await waits until each side accounts for all that the other side had at start, of its
// own and of third regions; false if the time is over.
func (r *runner) await(ctx context.Context, t rhumb.Topic, start measured, deadline <-chan time.Time) (bool, error) {
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	for now := start; ; {
		if r.reached(t, start, now) {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline:
			return false, nil
		case <-tick.C:
		}
		var err error
		if now, err = r.measure(ctx, t); err != nil {
			return false, err
		}
	}
}

// reached reports whether now accounts on each side for what start had on the other.
func (r *runner) reached(t rhumb.Topic, start, now measured) bool {
	for from := range r.sides {
		to := 1 - from
		for n, log := range start.follow[from].Logs {
			for _, o := range log.Origins {
				name := o.RegionName
				if o.Own {
					name = r.info[from].Name
				}
				last := o.LastRecord
				if end, is := start.ends[place{n, life{o.Region, o.Life}}]; is {
					last = min(last, end)
				}
				if top, is := start.tops[place{n, life{o.Region, o.Life}}]; is { // asked after start was read
					last = min(last, top)
				}
				if name == r.info[to].Name { // of before it was rebuilt: it comes back from here
					name = r.info[from].Name
				}
				brought := name != "" && flows(r.edges, t, name, r.info[to].Name) ||
					name == "" && inherits(r.edges, t, r.info[from].Name, r.info[to].Name)
				if last < 0 || start.gone[place{n, life{o.Region, o.Life}}] || !brought {
					continue
				}
				there, known := origin(now.follow[to], n, life{o.Region, o.Life})
				if !known || there.Watermark < last {
					return false
				}
			}
		}
	}
	return true
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// What a plan asks each region for.
const (
	figuresWait   = 10 * time.Second
	figuresTopics = 500      // at most described in each region
	figuresRead   = 64 << 20 // bytes at most of logs in which records of an edge are counted one by one
)

// planFigures is what regions' figures say of the edges of a plan.
type planFigures []edgeFigures

// edgeFigures is one edge: what a new one would send of what its source holds, what
// one that changes would send that it does not send now, or what of one that is
// removed is not confirmed.
type edgeFigures struct {
	Edge    configstore.PlanEdge `json:"edge"`
	Known   bool                 `json:"known"` // false: see Error
	Error   string               `json:"error,omitempty"`
	Exact   bool                 `json:"exact,omitempty"` // records were counted, else they are at most so many
	Records int64                `json:"records,string"`
	Bytes   int64                `json:"bytes,string"` // about
	Topics  []topicFigures       `json:"topics"`
	// Origins are those whose records a new or changed edge would send.
	Origins []originFigures `json:"origins,omitempty"`
}

// topicFigures is the share of one topic.
type topicFigures struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records,string"`
	Bytes   int64  `json:"bytes,string"`
}

// of says in words what is known of an edge that changes.
func (p planFigures) of(c configstore.EdgeChange) string {
	i := slices.IndexFunc(p, func(f edgeFigures) bool { return f.Edge == c.Edge() })
	if i < 0 {
		return ""
	}
	switch f := p[i]; {
	case c.Action == configstore.ActionAdd && f.Edge.Start == configstore.StartLatest:
		return "sends what is published from then on"
	case !f.Known:
		return "what it concerns is not known: " + f.Error
	case c.Action == configstore.ActionAdd && f.Records == 0:
		return "nothing is there to send yet"
	case c.Action == configstore.ActionAdd:
		return fmt.Sprintf("sends %s%s, and what comes after", f.amount(), f.ofWhom())
	case c.Action == configstore.ActionChange && f.Records == 0:
		return "nothing of other regions is there yet that " + string(f.Edge.To) + " lacks"
	case c.Action == configstore.ActionChange:
		return fmt.Sprintf("sends what it has of other regions too: %s%s, and what comes after", f.amount(), f.ofWhom())
	case f.Records == 0:
		return "everything that it carried is confirmed"
	default:
		return fmt.Sprintf("%d records, about %s, in %d topics are not confirmed", f.Records, size(f.Bytes), len(f.Topics))
	}
}

// regionFigures is what one region answered.
type regionFigures struct {
	err    error
	number rhumb.RegionNumber
	conn   *client.Client
	topics map[rhumb.Topic]api.TopicDetail
	own    map[rhumb.Topic]bool // with a topology of its own
	links  []api.Link
}

// planFigures asks the regions of a plan's edges, and adds warnings that follow.
func (a *asking) planFigures(ctx context.Context, conn *client.Client, p *configstore.Plan) planFigures {
	out := planFigures{}
	if len(p.Edges) == 0 && len(p.Steps) == 0 {
		return out
	}
	regions := a.askRegions(ctx, conn, p)
	counting, cancel := context.WithTimeout(ctx, figuresWait)
	defer cancel()
	defer func() {
		for _, f := range regions {
			f.close()
		}
	}()
	for _, c := range p.Edges {
		f := edgeFigures{Edge: c.Edge(), Known: true, Topics: []topicFigures{}}
		switch c.Action {
		case configstore.ActionAdd:
			if f.Edge.Start != configstore.StartLatest {
				f.toSend(counting, regions[f.Edge.From], regions[f.Edge.To], nil)
			}
		case configstore.ActionChange:
			if !brings(&f.Edge, c.Before) {
				continue
			}
			f.toSend(counting, regions[f.Edge.From], regions[f.Edge.To], c.Before)
		case configstore.ActionRemove:
			f.unsent(regions[f.Edge.From])
			if f.Records > 0 {
				p.Warnings = append(p.Warnings, fmt.Sprintf("the edge from %s to %s of %s/%s is removed with %d records, about %s, that %[2]s has not confirmed: they stay in %[1]s, and go on if the edge comes back",
					f.Edge.From, f.Edge.To, f.Edge.Tenant, f.Edge.Namespace, f.Records, size(f.Bytes)))
			}
		default:
			continue
		}
		out = append(out, f)
	}
	p.Warnings = append(p.Warnings, standbyWarnings(p, regions)...)
	p.Warnings = append(p.Warnings, a.activeWarnings(ctx, conn, p)...)
	return out
}

// askRegions asks every region that an edge of the plan begins or ends in, at once.
func (a *asking) askRegions(ctx context.Context, conn *client.Client, p *configstore.Plan) map[rhumb.RegionName]*regionFigures {
	ctx, cancel := context.WithTimeout(ctx, figuresWait)
	defer cancel()
	spaces := map[rhumb.Space]bool{}
	out := map[rhumb.RegionName]*regionFigures{}
	for _, c := range p.Edges {
		e := c.Edge()
		spaces[rhumb.Space{Tenant: e.Tenant, Namespace: e.Namespace}] = true
		out[e.From], out[e.To] = &regionFigures{}, &regionFigures{}
	}
	known, err := conn.Regions(ctx)
	var wg sync.WaitGroup
	for name, f := range out {
		i := slices.IndexFunc(known, func(r api.RegionEntry) bool { return r.Name == name })
		if i < 0 {
			if f.err = err; err == nil {
				f.err = fmt.Errorf("region %s is not known where it was asked", name)
			}
			continue
		}
		f.number = known[i].Number
		wg.Go(func() { f.err = a.figuresOf(ctx, known[i], spaces, f) })
	}
	wg.Wait()
	return out
}

func (a *asking) figuresOf(ctx context.Context, r api.RegionEntry, spaces map[rhumb.Space]bool, f *regionFigures) error {
	conn, err := a.firstThatAnswers(ctx, r)
	if err != nil {
		return err
	}
	f.conn = conn
	f.topics, f.own = map[rhumb.Topic]api.TopicDetail{}, map[rhumb.Topic]bool{}
	if f.links, err = conn.Links(ctx); err != nil {
		return err
	}
	if err := covers(conn, spaces); err != nil {
		return err
	}
	edges, err := conn.EdgeList(ctx)
	if err != nil {
		return err
	}
	for _, name := range edges.OwnTopology {
		if t, err := rhumb.ParseTopic(name); err == nil {
			f.own[t] = true
		}
	}
	topics, err := conn.Topics(ctx)
	if err != nil {
		return err
	}
	for _, listed := range topics {
		t, err := rhumb.ParseTopic(listed.Topic)
		if err != nil || !spaces[rhumb.Space{Tenant: t.Tenant, Namespace: t.Namespace}] {
			continue
		}
		if len(f.topics) == figuresTopics {
			return fmt.Errorf("region %s has more than %d topics there", r.Name, figuresTopics)
		}
		detail, err := conn.Describe(ctx, t)
		if rhumb.KindOf(err) == rhumb.KindNotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		f.topics[t] = detail
	}
	return nil
}

func (f *regionFigures) close() {
	if f.conn != nil {
		f.conn.Close()
	}
}

// concerns reports whether the edge is one of the topic.
func (e *edgeFigures) concerns(t rhumb.Topic, own map[rhumb.Topic]bool) bool {
	if e.Edge.Tenant != t.Tenant || e.Edge.Namespace != t.Namespace {
		return false
	}
	return e.Edge.Topic == t.Name || e.Edge.Topic == "" && !own[t]
}

// unsent counts what an edge that is removed has not confirmed.
func (e *edgeFigures) unsent(from *regionFigures) {
	if from.err != nil {
		e.Known, e.Error = false, from.err.Error()
		return
	}
	type share struct{ records, bytes int64 }
	behind := map[rhumb.Topic]share{}
	if !slices.ContainsFunc(from.links, func(l api.Link) bool { return l.Peer == e.Edge.To }) && from.holds(e) {
		e.Known, e.Error = false, "region "+string(e.Edge.From)+" has no link to "+string(e.Edge.To)
	}
	for _, l := range from.links {
		if l.Peer != e.Edge.To {
			continue
		}
		for _, p := range l.Partitions {
			t, err := rhumb.ParseTopic(p.Topic)
			if err != nil || p.Direction != "out" || !e.concerns(t, from.own) {
				continue
			}
			if p.LagRecords < 0 {
				e.Known, e.Error = false, "region "+string(e.Edge.To)+" has not said how much it has"
				continue
			}
			s := behind[t]
			behind[t] = share{s.records + p.LagRecords, s.bytes + max(0, p.LagBytes)}
		}
	}
	for t, s := range behind {
		e.add(t, s.records, s.bytes)
	}
}

// holds reports whether the region has records that the edge may concern.
func (f *regionFigures) holds(e *edgeFigures) bool {
	for t, d := range f.topics {
		if e.concerns(t, f.own) && slices.ContainsFunc(d.Logs, func(log api.Partition) bool { return log.End > log.LogStart }) {
			return true
		}
	}
	return false
}

func (e *edgeFigures) add(t rhumb.Topic, records, bytes int64) {
	if records == 0 {
		return
	}
	e.Records, e.Bytes = e.Records+records, e.Bytes+bytes
	e.Topics = append(e.Topics, topicFigures{t.String(), records, bytes})
	slices.SortFunc(e.Topics, func(a, b topicFigures) int { return int(b.Records - a.Records) })
}

// standbyWarnings names regions that become standbys and have taken producers.
func standbyWarnings(p *configstore.Plan, regions map[rhumb.RegionName]*regionFigures) (out []string) {
	for _, s := range p.Steps {
		i := slices.IndexFunc(s.Changes, func(f configstore.FieldChange) bool { return f.Field == "topology.active-standby.standby" })
		if i < 0 || s.Kind != "namespace" {
			continue
		}
		var before, standby []rhumb.RegionName
		if json.Unmarshal(s.Changes[i].After, &standby) != nil {
			continue
		}
		_ = json.Unmarshal(s.Changes[i].Before, &before) // absent: it was of another shape
		standby = slices.DeleteFunc(standby, func(r rhumb.RegionName) bool { return slices.Contains(before, r) })
		for _, name := range standby {
			f := regions[name]
			if f == nil || f.err != nil {
				continue
			}
			topics := 0
			for t, d := range f.topics {
				if string(t.Tenant)+"/"+string(t.Namespace) == s.Name && slices.ContainsFunc(d.Logs, holdsOwn) {
					topics++
				}
			}
			if topics > 0 {
				out = append(out, fmt.Sprintf("region %s becomes a standby of namespace %s and holds records that were published there, in %d topics: producers that are still there will be refused",
					name, s.Name, topics))
			}
		}
	}
	return out
}

func holdsOwn(log api.Partition) bool {
	return slices.ContainsFunc(log.Origins, func(o api.Origin) bool { return o.Own && o.LastRecord >= log.LogStart })
}

// activeWarnings names regions that are to take producers and cannot be reached now.
func (a *asking) activeWarnings(ctx context.Context, conn *client.Client, p *configstore.Plan) (out []string) {
	for _, s := range p.Steps {
		i := slices.IndexFunc(s.Changes, func(f configstore.FieldChange) bool { return f.Field == "topology.active-standby.active" })
		var active rhumb.RegionName
		if i < 0 || s.Kind != "namespace" || json.Unmarshal(s.Changes[i].After, &active) != nil || active == "" {
			continue
		}
		if err := a.reachable(ctx, conn, active); err != nil {
			out = append(out, fmt.Sprintf("region %s, the active one of namespace %s from then on, cannot be reached: nobody takes producers there until it is back (%v)", active, s.Name, err))
		}
	}
	return out
}

// reachable asks a region for itself.
func (a *asking) reachable(ctx context.Context, conn *client.Client, name rhumb.RegionName) error {
	ctx, cancel := context.WithTimeout(ctx, figuresWait)
	defer cancel()
	known, err := conn.Regions(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(known, func(r api.RegionEntry) bool { return r.Name == name })
	if i < 0 {
		return fmt.Errorf("it is not known where it was asked")
	}
	answers, err := a.firstThatAnswers(ctx, known[i])
	if err == nil {
		answers.Close()
	}
	return err
}

package verify

import (
	"context"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// What one side has of a third region is waited for on the other, which may not
// even know of that origin yet.
func TestWaitIncludesThirdRegions(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		ap := api.Origin{Region: 3, RegionName: "ap", Watermark: 9, LastRecord: 9}
		detail := func(o ...api.Origin) api.TopicDetail {
			return api.TopicDetail{Logs: []api.Partition{{Ready: true, Origins: o}}}
		}
		us := direct{log: func() api.TopicDetail { return detail(ap) }}
		eu := direct{log: func() api.TopicDetail {
			if time.Since(began) < 3*time.Second {
				return detail()
			}
			return detail(ap)
		}}
		r := runner{opt: Options{Wait: 5 * time.Second}, sides: [2]Source{us, eu}, edges: apiEdges(),
			info: [2]api.Region{{Name: "us", Number: 1}, {Name: "eu", Number: 2}}}
		if _, got, err := r.settled(t.Context(), topic("t")); !got || err != nil || time.Since(began) < 3*time.Second {
			t.Errorf("caught up %v (%v) after %s", got, err, time.Since(began))
		}
	})
}

// A life in which nothing was ever published reaches the others' marks now and then only, and
// one of them before the other: its region says that there is nothing to wait for.
func TestWaitIsNotForALifeWithoutRecords(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, last := range []rhumb.Offset{rhumb.NoOffset, 4} {
			began := time.Now()
			detail := func(o api.Origin) func() api.TopicDetail {
				return func() api.TopicDetail {
					return api.TopicDetail{Logs: []api.Partition{{Ready: true, Origins: []api.Origin{o}}}}
				}
			}
			of := func(mark rhumb.Offset) api.Origin {
				return api.Origin{Region: 3, RegionName: "ap", Watermark: mark, LastRecord: mark}
			}
			third := direct{log: detail(api.Origin{Region: 3, RegionName: "ap", Own: true, Watermark: 99, LastRecord: last})}
			r := runner{opt: Options{Wait: time.Minute, Third: func(context.Context, rhumb.RegionName) (Source, error) { return third, nil }},
				sides: [2]Source{direct{log: detail(of(99))}, direct{log: detail(of(4))}}, edges: apiEdges(),
				info: [2]api.Region{{Name: "us", Number: 1}, {Name: "eu", Number: 2}}}
			if _, got, err := r.settled(t.Context(), topic("t")); !got || err != nil || time.Since(began) > 0 {
				t.Errorf("last record %d: caught up %v (%v) after %s", last, got, err, time.Since(began))
			}
			third.log = detail(api.Origin{Region: 3, RegionName: "ap", Own: true, Watermark: 99, LastRecord: 7})
			if _, got, err := r.settled(t.Context(), topic("t")); got || err != nil {
				t.Errorf("a record that eu lacks is not waited for (%v)", err)
			}
		}
	})
}

// A life that begins while verify waits for another is heard of on one side first.
func TestWaitIncludesLivesThatBeginMeanwhile(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		after := func(d time.Duration) bool { return time.Since(began) >= d }
		ap := api.Origin{Region: 3, RegionName: "ap", Watermark: 9, LastRecord: 9}
		own := api.Origin{Region: 1, RegionName: "us", Own: true, Watermark: 4, LastRecord: 4}
		side := func(ownAfter, apAfter time.Duration) direct {
			return direct{log: func() api.TopicDetail {
				p := api.Partition{Ready: true}
				if after(ownAfter) {
					p.Origins = append(p.Origins, own)
				}
				if after(apAfter) {
					p.Origins = append(p.Origins, ap)
				}
				return api.TopicDetail{Logs: []api.Partition{p}}
			}}
		}
		r := runner{opt: Options{Wait: 5 * time.Second}, sides: [2]Source{side(0, time.Second), side(2*time.Second, 3*time.Second)}, edges: apiEdges(),
			info: [2]api.Region{{Name: "us", Number: 1}, {Name: "eu", Number: 2}}}
		m, got, err := r.settled(t.Context(), topic("t"))
		if _, knows := origin(m.follow[1], 0, life{region: 3}); !got || err != nil || !knows {
			t.Errorf("caught up %v (%v) after %s: %+v", got, err, time.Since(began), m.follow[1])
		}
	})
}

// apiEdges is fullMesh as an API tells it.
func apiEdges() (out api.EdgeList) {
	for _, e := range fullMesh() {
		out.Edges = append(out.Edges, api.Edge{Tenant: e.Tenant, Namespace: e.Namespace, From: e.From, To: e.To})
	}
	return out
}

// listing is a region of which only the list of topics counts.
type listing struct {
	Source
	topics func() []api.Topic
}

func (l listing) Topics(context.Context) ([]api.Topic, error) { return l.topics(), nil }

// A topic that one side has not heard of, or only of its earlier life, is waited
// for as records are.
func TestWaitIncludesTopics(t *testing.T) {
	const name = "persistent://public/default/t"
	fresh := api.Topic{Topic: name, Partitions: 3, Deletions: 1}
	for what, before := range map[string][]api.Topic{
		"unknown": nil, "not deleted yet": {{Topic: name, Partitions: 3}}, "not grown yet": {{Topic: name, Partitions: 2, Deletions: 1}},
	} {
		bubble.Test(t, func(t *testing.T) {
			began := time.Now()
			us := listing{topics: func() []api.Topic { return []api.Topic{fresh} }}
			eu := listing{topics: func() []api.Topic {
				if time.Since(began) < 3*time.Second {
					return before
				}
				return []api.Topic{fresh}
			}}
			for _, c := range []struct{ wait, after time.Duration }{{0, 0}, {time.Second, time.Second}, {5 * time.Second, 3 * time.Second}} {
				began = time.Now()
				r := runner{opt: Options{Topics: []rhumb.Topic{topic("t")}, Wait: c.wait}, sides: [2]Source{us, eu}, edges: apiEdges()}
				got, err := r.awaitTopics(t.Context())
				took := time.Since(began)
				if err != nil || len(got) != 1 || got[0].oneSided() != (c.after < 3*time.Second) || took < c.after || took > c.after+waitStep {
					t.Errorf("%s, wait %s: %+v (%v) after %s", what, c.wait, got, err, took)
				}
			}
		})
	}
}

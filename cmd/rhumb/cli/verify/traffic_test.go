package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// busy is a region that things happen to whenever it is asked something, and
// while its digests are read.
type busy struct {
	Source
	happen func()
}

func (b busy) Describe(ctx context.Context, t rhumb.Topic) (api.TopicDetail, error) {
	b.happen()
	return b.Source.Describe(ctx, t)
}

func (b busy) Gaps(ctx context.Context, t rhumb.Topic) ([]api.Gap, error) {
	b.happen()
	return b.Source.Gaps(ctx, t)
}

func (b busy) Digest(ctx context.Context, q api.DigestQuery) (Stream, error) {
	b.happen()
	s, err := b.Source.Digest(ctx, q)
	return busyStream{s, b.happen}, err
}

type busyStream struct {
	Stream
	happen func()
}

func (b busyStream) Next() (api.DigestLine, error) {
	b.happen()
	return b.Stream.Next()
}

// TestUnderTrafficEqualStaysEqual: publishing, copying and retention go on while
// regions are compared, and nothing that is only late or dropped is told as a
// difference.
func TestUnderTrafficEqualStaysEqual(t *testing.T) {
	for seed := range uint64(30) {
		m := filled(t)
		random := rand.New(rand.NewPCG(seed, 0))
		happen := func() {
			for range random.IntN(3) {
				m.step(random)
			}
		}
		for range 3 {
			r, err := Run(t.Context(), Options{A: busy{m.api[m.us], happen}, B: busy{m.api[m.eu], happen}})
			if err != nil {
				t.Fatal(err)
			}
			if r.State == Differs {
				t.Fatalf("seed %d: %s", seed, describe(r))
			}
		}
	}
}

// step does one thing that is right at any time.
func (m *mesh) step(random *rand.Rand) {
	from, to := m.us, m.eu
	if random.IntN(2) == 0 {
		from, to = to, from
	}
	switch random.IntN(4) {
	case 0:
		publish(from, 1+random.IntN(4))
	case 1, 2:
		log(to).CopyFrom(log(from))
	case 3: // retention, of nothing that is still to be sent
		st, _ := from.State(log(from).Ref())
		for _, o := range to.Origins("t", 0) {
			if o.Life == st.Life && o.Watermark > st.LogStart {
				log(from).Trim(st.LogStart + rhumb.Offset(random.IntN(int(min(5, o.Watermark-st.LogStart)))))
			}
		}
	}
}

// scripted is a region whose answers a test changes as they are asked for.
type scripted struct {
	Source
	describes int
	before    func(n int) // before the n-th Describe
}

func (s *scripted) Describe(ctx context.Context, t rhumb.Topic) (api.TopicDetail, error) {
	s.describes++
	s.before(s.describes)
	return s.Source.Describe(ctx, t)
}

func TestRetentionDuringAComparisonIsNoDifference(t *testing.T) {
	m := filled(t)
	eu := &scripted{Source: m.api[m.eu], before: func(n int) {}}
	us := &scripted{Source: m.api[m.us], before: func(n int) {
		if n == 2 { // the last look at figures before the logs are compared; eu's were taken
			log(m.eu).Trim(8)
		}
	}}
	r, err := Run(t.Context(), Options{A: us, B: eu})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, Unknown, "explained in eu: 3 at [0-2]: retention", "compared 3-18")
	for _, o := range r.Origins {
		if o.State == Differs {
			t.Error("retention is told as a difference")
		}
	}
}

// Retention drops all that is being compared of a life: that is told by name, and not as
// what was dropped before. So it is where it drops more ranges than are kept.
func TestRetentionThatOvertakesAComparison(t *testing.T) {
	m := newMesh(t)
	one := make([]int, 3*maxRanges)
	for i := range one {
		one[i] = 1
	}
	publish(m.us, one...)
	log(m.eu).CopyFrom(log(m.us))
	eu := &scripted{Source: m.api[m.eu], before: func(n int) {
		if n == 2 { // the last look at figures before the logs are compared; us's were taken
			log(m.us).Trim(3 * maxRanges)
		}
	}}
	r, err := Run(t.Context(), Options{A: eu, B: m.api[m.us]})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, Unknown, "retention in us overtook the comparison")
	if !r.Origins[0].Overtaken {
		t.Errorf("%+v", r.Origins[0])
	}
	r = m.verify(t)
	if len(r.Origins) == 0 || r.Origins[0].Overtaken {
		t.Errorf("what was dropped before is told as dropped meanwhile: %+v", r.Origins)
	}
}

func TestRecreatedTopicDuringAComparisonIsUnknown(t *testing.T) {
	m := filled(t)
	us := &scripted{Source: m.api[m.us], before: func(n int) {
		if n != 2 {
			return
		}
		if err := m.eu.DeleteTopic(t.Context(), topic("t"), "", false); err != nil {
			t.Error(err)
		}
		if _, err := m.eu.CreateTopic(t.Context(), topic("t"), 1, nil); err != nil {
			t.Error(err)
		}
	}}
	r, err := Run(t.Context(), Options{A: us, B: m.api[m.eu]})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, Unknown, "changed while it was compared")
}

// direct is an in-memory region without HTTP, for virtual time.
type direct struct {
	Source
	log func() api.TopicDetail
}

func (d direct) Describe(context.Context, rhumb.Topic) (api.TopicDetail, error) { return d.log(), nil }

func TestWaitEndsWhenBothHaveCaughtUp(t *testing.T) {
	for _, c := range []struct {
		arrives time.Duration
		want    bool
		after   time.Duration
	}{{0, true, 0}, {3 * time.Second, true, 3 * time.Second}, {time.Hour, false, 5 * time.Second}} {
		t.Run(fmt.Sprint(c.arrives), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				began := time.Now()
				detail := func(o ...api.Origin) api.TopicDetail {
					return api.TopicDetail{Logs: []api.Partition{{Ready: true, Origins: o}}}
				}
				us := direct{log: func() api.TopicDetail {
					return detail(api.Origin{Region: 1, Own: true, LastRecord: 9, Watermark: 9})
				}}
				eu := direct{log: func() api.TopicDetail {
					o := api.Origin{Region: 1, Watermark: 4}
					if time.Since(began) >= c.arrives {
						o.Watermark = 9
					}
					return detail(api.Origin{Region: 2, Own: true, LastRecord: rhumb.NoOffset}, o)
				}}
				r := runner{opt: Options{Wait: 5 * time.Second}, sides: [2]Source{us, eu},
					info:  [2]api.Region{{Name: "us", Number: 1}, {Name: "eu", Number: 2}},
					edges: api.EdgeList{Edges: []api.Edge{{Tenant: "public", Namespace: "default", From: "us", To: "eu"}}}}
				_, got, err := r.settled(t.Context(), topic("t"))
				if err != nil || got != c.want || time.Since(began) < c.after || time.Since(began) > c.after+waitStep {
					t.Errorf("caught up %v (%v) after %s", got, err, time.Since(began))
				}
			})
		})
	}
}

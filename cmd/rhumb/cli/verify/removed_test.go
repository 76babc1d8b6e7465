package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// remove has us and eu forget ap, and joins them by edges of a shape that brings what
// removed regions published, or of one that does not.
func (m *mesh) remove(brings bool) {
	for _, r := range []*admintest.Region{m.us, m.eu} {
		edges := fullMesh()[:0:0]
		for _, e := range fullMesh() {
			if e.From != "ap" && e.To != "ap" {
				e.Gone = brings
				edges = append(edges, e)
			}
		}
		r.SetMesh([]admin.RegionEntry{{Name: "us", Number: 1, State: "active"}, {Name: "eu", Number: 2, State: "active"}}, edges)
	}
}

// Copies of what a removed region published differ, which is told until an operator left
// them so: then it is said which records only one of them has. What differs before the
// place where they part is a difference still.
func TestCopiesLeftApart(t *testing.T) {
	for _, c := range []struct {
		from  rhumb.Offset // of the gap; 0: there is none
		state State
		us    int64
	}{{0, Differs, 0}, {2, Incomplete, 3}, {3, Differs, 2}} {
		m := newMesh(t)
		m.remove(true)
		publish(m.ap, 2)
		log(m.us).CopyFrom(log(m.ap))
		log(m.eu).CopyFrom(log(m.ap))
		publish(m.ap, 3)
		log(m.us).CopyFrom(log(m.ap))
		last := log(m.us).Batches()[1]
		for at := rhumb.Offset(2); at < 4; at++ { // eu has two others, of one record each
			other := last
			other.Bytes = codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Timestamp: 1_700_000_000_000, Value: fmt.Append(nil, "other", at)}})
			other.First, other.Last = at, at
			log(m.eu).Receive(other)
		}
		if c.from > 0 {
			log(m.eu).Gap(log(m.ap), c.from, 4, rhumb.ReasonDiverged)
		}
		r := m.verify(t)
		want(t, r, c.state)
		o := r.Origins[len(r.Origins)-1] // ap's: the highest number
		if c.state == Incomplete && (o.Alone["us"] != c.us || o.Alone["eu"] != 2 || o.Records != 2) {
			t.Errorf("gap from %d: alone %v, equal %d", c.from, o.Alone, o.Records)
		}
	}
}

// What us has of a removed region and eu has not is on its way where the edges bring
// it, also if eu holds nothing of it, and is waited for. Where they do not, the two are
// not the same if eu has some of it, and are not compared if it was never to get any.
func TestRecordsOfARemovedRegion(t *testing.T) {
	for _, c := range []struct {
		name                   string
		brings                 bool
		before, after          int // how many of ap's two batches eu got first, and at all
		state                  State
		late, alone, uncarried int64
	}{
		{"all of it", true, 1, 2, Equal, 0, 0, 0},
		{"all of it, no edge", false, 1, 2, Equal, 0, 0, 0},
		{"some of it", true, 1, 1, Equal, 3, 0, 0},
		{"some of it, no edge", false, 1, 1, Incomplete, 0, 3, 0},
		{"nothing of it", true, 0, 0, Unknown, 5, 0, 0},
		{"nothing of it, no edge", false, 0, 0, Equal, 0, 0, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMesh(t)
			m.remove(c.brings)
			publish(m.us, 1)
			log(m.eu).CopyFrom(log(m.us))
			publish(m.ap, 2)
			if c.before > 0 {
				log(m.eu).CopyFrom(log(m.ap))
			}
			publish(m.ap, 3)
			log(m.us).CopyFrom(log(m.ap))
			if c.after == 2 {
				log(m.eu).CopyFrom(log(m.ap))
			}
			r := m.verify(t)
			want(t, r, c.state)
			o := r.Origins[len(r.Origins)-1] // ap's: the highest number
			if o.Late["eu"] != c.late || o.Alone["us"] != c.alone || o.Uncarried["eu"] != c.uncarried {
				t.Errorf("late %v, alone %v, uncarried %v", o.Late, o.Alone, o.Uncarried)
			}
			if c.late > 0 {
				go log(m.eu).CopyFrom(log(m.ap))
				r, err := Run(t.Context(), Options{A: m.api[m.us], B: m.api[m.eu], Wait: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				want(t, r, Equal)
			}
		})
	}
}

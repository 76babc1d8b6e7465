package server

import (
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// After a restart of the source while the destination is down nobody knows what that
// has: the lag is unknown, not the whole log. Once it was asked, the figure is true.
func TestLagIsUnknownUntilThePeerWasAsked(t *testing.T) {
	us, eu := configure(t), configure(t)
	eu.Region.Name = "eu"
	eu.ConfigStore = us.ConfigStore
	seedPair(t, &us, &eu)
	a, b := start(t, us), start(t, eu)
	for _, value := range []string{"one", "two", "three"} {
		a.produce(a.client(a.kafka()), "orders", value)
	}
	shows := func(f *fixture, lines ...string) func() bool {
		return func() bool {
			_, text := get("http://"+f.admin()+"/metrics", "")
			for _, line := range lines {
				if !strings.Contains(text, line+"\n") {
					return false
				}
			}
			return true
		}
	}
	lag := func(value string) (lines []string) {
		for _, unit := range []string{"records", "bytes", "seconds"} {
			lines = append(lines, `rhumb_link_lag_`+unit+`{direction="out",peer_region="eu"} `+value)
		}
		return append(lines, `rhumb_partitions_open 1`)
	}
	last := rhumb.Offset(2)
	confirmed := func() bool {
		for _, l := range a.server.links() {
			for _, p := range l.Partitions {
				if p.Out && p.Confirmed == last && p.LagRecords == 0 {
					return true
				}
			}
		}
		return false
	}
	until(t, "all is confirmed", confirmed)
	until(t, "there is no lag", shows(a, lag("0")...))
	for _, f := range []*fixture{b, a} {
		f.stop()
		if err := f.end(); err != nil {
			t.Fatal(err)
		}
	}
	a = start(t, us)
	until(t, "the lag is unknown", shows(a, lag("-1")...))
	code, text := get("http://"+a.admin()+"/admin/v1/links", "")
	if code != 200 || !strings.Contains(text, `"lag_records":"-1"`) || !strings.Contains(text, `"lag_seconds":-1`) || strings.Contains(text, `"lag_records":"3"`) {
		t.Errorf("%d: %s", code, text)
	}
	last = 3
	a.produce(a.client(a.kafka()), "orders", "four")
	until(t, "what came after the restart counts", shows(a, `rhumb_link_lag_records{direction="out",peer_region="eu"} 1`,
		`rhumb_link_lag_unknown_partitions{peer_region="eu"} 1`))
	if d := a.server.remaining(); len(d.Behind) != 1 || d.Behind[0].Partitions != 1 {
		t.Errorf("for a drain it counts as not confirmed, not %+v", d)
	}
	start(t, eu)
	until(t, "all is confirmed again", confirmed)
	until(t, "the lag is known", shows(a, lag("0")...))
}

func TestSumOfLags(t *testing.T) {
	known := replicator.PartitionStatus{Lag: replicator.Lag{Known: true, Records: 4, Bytes: 40, Age: time.Second}}
	none := replicator.PartitionStatus{Lag: replicator.Lag{Known: true}}
	empty := replicator.PartitionStatus{} // nobody was asked, and there is nothing to send
	asked := replicator.PartitionStatus{Lag: replicator.Lag{Records: 200, Bytes: 2000, Age: time.Hour}}
	fresh := asked
	fresh.Lag.Least = replicator.LeastLag{Records: 3, Bytes: 3, Age: time.Minute}
	for _, c := range []struct {
		all            []replicator.PartitionStatus
		records, bytes int64
		age            time.Duration
	}{
		{nil, 0, 0, 0},
		{[]replicator.PartitionStatus{known, none, empty, known}, 8, 80, time.Second},
		{[]replicator.PartitionStatus{none, asked}, unknown, unknown, unknown},
		{[]replicator.PartitionStatus{asked, asked, known}, 4, 40, time.Second},
		{[]replicator.PartitionStatus{asked, fresh, known}, 7, 43, time.Minute},
	} {
		sums := replicator.SumsOf(c.all)
		if records, bytes, age := sumLag(&sums); records != c.records || bytes != c.bytes || age != c.age {
			t.Errorf("%+v: %d records, %d bytes, %s", c.all, records, bytes, age)
		}
	}
}

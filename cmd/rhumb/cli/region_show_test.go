package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestCaughtUpMeansConfirmed: what the sources had when the wait began has to be
// confirmed, by links that stand; what comes later or is deleted does not count.
func TestCaughtUpMeansConfirmed(t *testing.T) {
	a, b := endKey{topic: "a"}, endKey{topic: "b"}
	goals := map[rhumb.RegionName]map[endKey]rhumb.Offset{"us": {a: 9, b: 4}}
	joined := regionAnswer{}
	joined.JoinedAt = time.Unix(1, 0)
	for _, c := range []struct {
		name      string
		state     string
		confirmed map[endKey]rhumb.Offset
		want      bool
	}{
		{"all of it", "flowing", map[endKey]rhumb.Offset{a: 9, b: 4}, true},
		{"more of it", "flowing", map[endKey]rhumb.Offset{a: 90, b: 4}, true},
		{"one record less", "flowing", map[endKey]rhumb.Offset{a: 8, b: 4}, false},
		{"nothing known", "flowing", map[endKey]rhumb.Offset{a: -1, b: -1}, false},
		{"a topic that was deleted", "flowing", map[endKey]rhumb.Offset{b: 4}, true},
		{"a link that is down", "disconnected", map[endKey]rhumb.Offset{a: 9, b: 4}, false},
		{"a source that cannot be asked", "", nil, false},
	} {
		answer := joined
		answer.Sources = []sourceProgress{{Region: "us", State: c.state, confirmed: c.confirmed}}
		if got := reached(answer, goals); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	answer := regionAnswer{Sources: []sourceProgress{{Region: "us", State: "idle", confirmed: map[endKey]rhumb.Offset{a: 9, b: 4}}}}
	if reached(answer, goals) {
		t.Error("a region that never started has caught up")
	}
	answer = joined
	answer.Sources = []sourceProgress{{Region: "us", State: "idle"}, {Region: "eu", State: "idle"}}
	if reached(answer, goals) {
		t.Error("a source of which nothing was known counts")
	}
}

// What a source comes to send of an earlier life after the first look belongs to what it
// had then; what it published meanwhile does not. A life that each source leaves to
// another one is on its way.
func TestCaughtUpIncludesLivesThatReturn(t *testing.T) {
	own, old := endKey{topic: "t", region: 1, life: rhumb.Life{1}}, endKey{topic: "t", region: 3, life: rhumb.Life{3}}
	grown := endKey{topic: "t", partition: 1, region: 1, life: rhumb.Life{2}}
	goal := map[endKey]rhumb.Offset{own: 9}
	us := sourceProgress{Region: "us", State: "idle", number: 1, ends: map[endKey]rhumb.Offset{own: 30, old: 4, grown: 5},
		confirmed: map[endKey]rhumb.Offset{own: 20, old: -1, grown: -1}}
	us.returns(goal)
	if len(goal) != 2 || goal[own] != 9 || goal[old] != 4 {
		t.Fatalf("goal %v", goal)
	}
	us.returns(nil) // nothing is known of the source yet
	answer := regionAnswer{Sources: []sourceProgress{us}}
	answer.JoinedAt = time.Unix(1, 0)
	goals := map[rhumb.RegionName]map[endKey]rhumb.Offset{"us": goal}
	if reached(answer, goals) {
		t.Error("an earlier life is still to come")
	}
	us.confirmed[old] = 4
	if !reached(answer, goals) {
		t.Error("everything is there")
	}
	delete(us.confirmed, old)
	us.standby = []endKey{old}
	eu := sourceProgress{Region: "eu", State: "idle", number: 2, standby: []endKey{old}, confirmed: map[endKey]rhumb.Offset{}}
	answer.Sources, goals["eu"] = []sourceProgress{us, eu}, map[endKey]rhumb.Offset{}
	if reached(answer, goals) {
		t.Error("each source leaves it to the other one")
	}
	eu.confirmed[old] = 4
	if !reached(answer, goals) {
		t.Error("eu sent it")
	}
}

// TestDrainWaitEndsWithWhatIsLeft: the look at the end of the wait has time of its own,
// however long the wait was; a region that stays silent is given up.
func TestDrainWaitEndsWithWhatIsLeft(t *testing.T) {
	left := drainAnswer{Region: "us", State: "draining", Drain: &api.Drain{Behind: []api.DrainPeer{{Peer: "eu", State: "refused", Records: 11}}}}
	for _, c := range []struct {
		wait   time.Duration
		silent bool // from the middle of the wait on
		want   int
		words  string
	}{
		{0, false, exitDone, "refused"},
		{15 * time.Second, false, exitFailed, "refused"},
		{time.Hour, false, exitFailed, "refused"},
		{15 * time.Second, true, exitUnknown, "not known"},
	} {
		bubble.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			begin := time.Now()
			cmd := &cobra.Command{}
			cmd.SetContext(t.Context())
			cmd.SetOut(&out)
			err := (&regionWork{}).awaitDrained(cmd, "us", c.wait, func(ctx context.Context, _ rhumb.RegionName) (drainAnswer, error) {
				answers := time.After(24 * time.Millisecond)
				if c.silent && time.Since(begin) > c.wait/2 {
					answers = nil
				}
				select {
				case <-answers:
					return left, nil
				case <-ctx.Done():
					return drainAnswer{}, rhumb.Errorf(rhumb.KindTimeout, "%w", ctx.Err())
				}
			})
			got, text := exitDone, out.String()
			var told *toldError
			if errors.As(err, &told) {
				got = told.code
			} else if err != nil {
				got, text = exitCode(err), text+err.Error()
			}
			if got != c.want || !strings.Contains(text, c.words) {
				t.Errorf("--wait %s, silent %v: exit code %d, want %d and %q:\n%s", c.wait, c.silent, got, c.want, c.words, text)
			}
		})
	}
}

// What a source does not owe keeps a region from nothing; what it does not know does.
func TestBehindIsWhatIsOwed(t *testing.T) {
	s := sourceProgress{ends: map[endKey]rhumb.Offset{}, confirmed: map[endKey]rhumb.Offset{}}
	stale := api.Flow{LagRecords: 34022, LagBytes: 5 << 20, LagSeconds: 691}
	s.take(&api.Link{State: "idle", Out: stale, Partitions: []api.LinkPartition{
		{Direction: "out", Topic: "deleted", State: "left out", End: 10, Confirmed: 4},
		{Direction: "out", Topic: "rebuilt", State: "closed", End: 150, Confirmed: -1},
		{Direction: "out", Topic: "elsewhere", State: "standby", End: 7, Confirmed: 3},
		{Direction: "out", Topic: "whole", State: "idle", End: 7, Confirmed: 7},
		{Direction: "in", Topic: "whole", LagRecords: -1},
	}})
	if s.Partitions != 0 || s.Estimate != 0 || len(s.ends) != 1 || s.Records != 0 || s.Bytes != 0 || s.Seconds != 0 {
		t.Errorf("nothing is owed: %+v", s)
	}
	s.take(&api.Link{State: "refused", Partitions: []api.LinkPartition{
		{Direction: "out", Topic: "refused", State: "refused", End: 10, Confirmed: 4, LagRecords: 6},
		{Direction: "out", Topic: "asked", State: "paused", End: 7, Confirmed: -1, LagRecords: -1},
	}})
	if s.Partitions != 2 || s.ends[endKey{topic: "asked"}] != 7 {
		t.Errorf("two partitions are behind: %+v", s)
	}
}

func TestDrainTableTellsWhatIsLeft(t *testing.T) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	drainTable(w, drainAnswer{Region: "ap", Number: 3, State: "draining", Drain: &api.Drain{State: "draining", Producing: 2,
		Behind: []api.DrainPeer{{Peer: "eu", State: "disconnected", Partitions: 4, Records: 500, Bytes: 2048, LastError: "no answer"}},
		Alone:  []string{"persistent://acme/local/notes"}}})
	w.Flush()
	for _, want := range []string{"2 batches", "eu ", "disconnected", "500", "2.0 KiB", "no answer", "no edge carries what was published in persistent://acme/local/notes"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// publish stores n records, one after the other, and gives their values.
func (m *Mesh) publish(at rhumb.RegionName, topic, mark string, n int) (values []string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	c := Client(m.t, m.Region(at).Kafka)
	defer c.Close()
	for i := range n {
		v := fmt.Sprintf("%s-%d", mark, i)
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			m.t.Fatalf("publish %s in %s: %v", v, at, err)
		}
		values = append(values, v)
	}
	return values
}

// valuesAt gives what a region holds of partition 0, without records of other
// marks.
func (m *Mesh) valuesAt(at rhumb.RegionName, topic string, marks ...string) (values []string) {
	m.t.Helper()
	for _, r := range Read(m.t, m.Region(at).Kafka, topic)[0] {
		mark, _, _ := strings.Cut(string(r.Value), "-")
		if slices.Contains(marks, mark) {
			values = append(values, string(r.Value))
		}
	}
	return values
}

// problems gives part and state of what a region says is not right with it.
func (m *Mesh) problems(at rhumb.RegionName) (all []string) {
	m.t.Helper()
	c, err := client.New(client.Config{URL: m.Region(at).Admin})
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	info, err := c.Region(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range info.Health.Problems {
		all = append(all, p.Part+": "+p.State)
	}
	return all
}

// restoreFrom has a region run on an old copy of its data directory.
func (m *Mesh) restoreFrom(name rhumb.RegionName, data, backup string) {
	m.t.Helper()
	m.Kill(name)
	if err := os.RemoveAll(data); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(backup, data); err != nil {
		m.t.Fatal(err)
	}
	m.Restart(name)
	m.note("%s runs on an old copy", name)
}

// A region comes back with an old copy of its data directory, writes on, and is removed
// before anybody let its partition go on: eu and ap hold copies that differ, and no log is
// left to which a new life could be given. An operator leaves both as they are.
func TestI3CopiesOfARemovedRegionThatDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("three processes")
	}
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 1)
	common := m.publish("us", "orders", "common", 20)
	m.Verify("orders")
	data, backup := filepath.Join(m.Dir, "data-us"), filepath.Join(m.Dir, "backup")
	m.Kill("us")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	m.Restart("us")
	m.Link("us", "ap", "cut=true")
	forgotten := m.publish("us", "orders", "forgotten", 50)
	Until(t, "eu has it", func() bool { return len(m.valuesAt("eu", "orders", "forgotten")) == len(forgotten) })
	m.restoreFrom("us", data, backup)
	m.Link("us", "ap", "cut=false")
	since := m.publish("us", "orders", "since", 30)
	Until(t, "ap has followed the copy", func() bool { return len(m.valuesAt("ap", "orders", "since")) == len(since) })
	m.Kill("us")
	m.Forget("us")
	m.tells(0, []string{"number 1 is retired"}, "region", "remove", "us", "--force")
	m.Flow("eu", "ap")

	Until(t, "the difference is known", func() bool { return strings.Contains(m.Run("link", "diverged", "--region", "eu").Stdout, "orders") })
	Until(t, "the health of eu tells of it", func() bool { return slices.Contains(m.problems("eu"), "link ap: diverged") })
	m.tells(1, []string{"different in ap"}, "verify", "eu", "ap", "orders")
	m.tells(1, []string{"ap would get a gap from 20 to 69", "would keep what it has"}, "link", "resolve", "orders", "--region", "eu")
	m.tells(0, []string{"ap has a gap from 20 to 69"}, "link", "resolve", "orders", "--region", "eu", "--yes")
	m.Kill("ap")
	m.Restart("ap")
	m.publish("eu", "orders", "later", 10)
	m.verifyIncomplete("eu", "ap", "orders", "for 50 records of removed regions that eu has and no link brings to ap")
	Until(t, "nobody complains", func() bool { return len(m.problems("eu"))+len(m.problems("ap")) == 0 })
	m.tells(0, []string{"copies differ"}, "gap", "list", "--region", "ap")
	for at, want := range map[rhumb.RegionName][]string{"eu": slices.Concat(common, forgotten), "ap": slices.Concat(common, since)} {
		if got := m.valuesAt(at, "orders", "common", "forgotten", "since"); !slices.Equal(got, want) {
			t.Errorf("%s holds %d records of us, want %d", at, len(got), len(want))
		}
	}
	m.Stop()
}

// A region comes back with an old copy of its data directory and writes on: its
// copy and that of eu differ from then on, while ap, which had not seen more than
// the copy, follows it. An operator lets the partition go on, while the link is
// down, and the region is killed right after it.
func TestI3RestoredRegionGoesOnUnderANewLife(t *testing.T) {
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 1)
	common := m.publish("us", "orders", "common", 40)
	m.Verify("orders")

	data, backup := filepath.Join(m.Dir, "data-us"), filepath.Join(m.Dir, "backup")
	m.Kill("us")
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	m.Restart("us")
	m.Link("us", "ap", "cut=true")
	forgotten := m.publish("us", "orders", "forgotten", 50)
	Until(t, "eu has it", func() bool { return len(m.valuesAt("eu", "orders", "forgotten")) == len(forgotten) })

	m.restoreFrom("us", data, backup)
	m.Link("us", "ap", "cut=false")
	since := m.publish("us", "orders", "since", 30)
	Until(t, "the divergence is known", func() bool {
		return strings.Contains(m.Run("link", "diverged").Stdout, "orders")
	})
	Until(t, "the health of us tells of it", func() bool { return slices.Contains(m.problems("us"), "link eu: diverged") })
	Until(t, "ap has followed the copy", func() bool { return len(m.valuesAt("ap", "orders", "since")) == len(since) })

	if res := m.Run("link", "resolve", "orders"); res.Code != 1 || !strings.Contains(res.Stdout, "would keep what lies up to 39") {
		t.Fatalf("the plan: %+v", res)
	}
	m.Link("us", "eu", "cut=true")
	if res := m.Run("link", "resolve", "orders", "--yes"); res.Code != 0 || !strings.Contains(res.Stdout, "keeps what lies up to 39") {
		t.Fatalf("resolve: %+v", res)
	}
	m.Kill("us")
	m.Restart("us")
	m.Heal()
	if res := m.Run("link", "resolve", "orders", "--yes"); res.Code != 0 || !strings.Contains(res.Stderr, "nothing to do") {
		t.Errorf("a second time: %+v", res)
	}
	later := m.publish("us", "orders", "later", 10)
	m.publish("eu", "orders", "back", 10)
	m.verifyPair("us", "ap", []string{"orders"})
	for _, other := range []rhumb.RegionName{"us", "ap"} { // they are not told the same for ever: eu has more
		m.verifyIncomplete(other, "eu", "orders", fmt.Sprintf("equal, but for %d records of earlier lives that eu has and no link brings to %s", len(forgotten), other))
	}

	source := slices.Concat(common, since, later)
	for at, want := range map[rhumb.RegionName][]string{"us": source, "ap": source, "eu": slices.Concat(common, forgotten, since, later)} {
		if got := m.valuesAt(at, "orders", "common", "forgotten", "since", "later"); !slices.Equal(got, want) {
			t.Errorf("%s holds %d records of us:\n%v\nwant %d:\n%v", at, len(got), got, len(want), want)
		}
	}
	if res := m.Run("verify", "us", "eu", "orders"); !strings.Contains(res.Stdout, "an earlier life of us, closed at offset 39") {
		t.Errorf("verify says nothing of the old life:\n%s%s", res.Stdout, res.Stderr)
	}
	m.Stop()
}

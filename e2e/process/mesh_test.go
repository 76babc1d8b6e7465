package process

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestMain(m *testing.M) { Main(m) }

// create makes a topic in a region and waits until all have it, or those named.
func (m *Mesh) create(at rhumb.RegionName, topic string, partitions int32, regions ...rhumb.RegionName) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	if _, err := kadm.NewClient(Client(m.t, m.Region(at).Kafka)).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		m.t.Fatalf("create %s in %s: %v", topic, at, err)
	}
	for _, r := range m.Regions {
		if len(regions) == 0 || slices.Contains(regions, r.Name) {
			m.awaitPartitions(r.Name, topic, int(partitions))
		}
	}
}

// awaitPartitions waits until a region's topic has as many partitions.
func (m *Mesh) awaitPartitions(at rhumb.RegionName, topic string, n int) {
	m.t.Helper()
	adm := kadm.NewClient(Client(m.t, m.Region(at).Kafka))
	Until(m.t, fmt.Sprintf("%s has %s with %d partitions", at, topic, n), func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), Limit)
		defer cancel()
		topics, err := adm.ListTopics(ctx)
		return err == nil && len(topics[topic].Partitions) == n
	})
}

// awaitTopic waits until a region has the topic, or has it no longer.
func (m *Mesh) awaitTopic(r *Region, topic string, there bool) {
	m.t.Helper()
	adm := kadm.NewClient(Client(m.t, r.Kafka))
	Until(m.t, "topics in "+string(r.Name)+" are in step with "+topic, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), Limit)
		defer cancel()
		topics, err := adm.ListTopics(ctx)
		return err == nil && topics.Has(topic) == there
	})
}

// Regions die by kill -9 and links are cut while idempotent producers write in
// every region. Nothing that was acknowledged is lost, doubled or out of order
// anywhere.
func TestI3KillsAndCutsUnderTraffic(t *testing.T) {
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 4)
	tr := m.Produce("orders", 4, 2)
	const some = 300
	tr.Progress(some, "us", "eu", "ap")

	m.Link("us", "eu", "cut=true") // one direction
	m.Kill("us")
	tr.Progress(some, "eu", "ap")
	if res := Run(t, []string{"RHUMB_ADDR=http://" + m.Region("eu").Admin}, "verify", "us", "ap"); res.Code != 2 {
		t.Errorf("verify with a dead region exits with %d, want 2:\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	m.Restart("us")
	tr.Progress(some, "us", "eu", "ap")
	m.Link("us", "eu", "cut=false")
	if !testing.Short() {
		m.moreFaults(tr, some)
	}
	m.Heal()
	tr.Finish()
	m.note("all is stored")
	m.Verify()
	tr.Check(m)
	m.Stop()
}

// moreFaults is the longer part of the story.
func (m *Mesh) moreFaults(tr *Traffic, some int) {
	m.t.Helper()
	m.Link("us", "ap", "cut=true") // both directions
	m.Link("ap", "us", "cut=true")
	m.Link("eu", "ap", "rtt=80ms,loss=2%,reorder=2%,duplicate=2%,rate=50mbit")
	m.Link("ap", "eu", "rtt=80ms,loss=2%,reorder=2%,duplicate=2%,rate=50mbit")
	tr.Progress(some, "us", "eu", "ap")
	m.Kill("eu")
	tr.Progress(some, "us", "ap")
	m.Restart("eu")
	m.Link("us", "ap", "cut=false")
	tr.Progress(some, "us", "eu", "ap")
	m.Kill("us") // a second time, and two at once
	m.Kill("ap")
	tr.Progress(some, "eu")
	m.Restart("ap")
	m.Restart("us")
	tr.Progress(some, "us", "eu", "ap")
	m.Link("us", "eu", "cut=true") // long enough for both sides to notice
	m.Link("eu", "us", "cut=true")
	m.awaitLink("us", "eu", "disconnected")
	m.awaitLink("eu", "us", "disconnected")
	tr.Progress(some, "us", "eu", "ap")
}

// awaitLink waits until a region says that its link to another is in a state.
func (m *Mesh) awaitLink(of, to rhumb.RegionName, state string) {
	m.t.Helper()
	Until(m.t, fmt.Sprintf("%s says that its link to %s is %s", of, to, state), func() bool {
		var list struct {
			Links []struct{ Peer, State string }
		}
		res := Run(m.t, []string{"RHUMB_ADDR=http://" + m.Region(of).Admin}, "link", "list", "-o", "json")
		if err := json.Unmarshal([]byte(res.Stdout), &list); res.Code != 0 || err != nil {
			m.t.Fatalf("link list exits with %d: %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
		}
		return slices.ContainsFunc(list.Links, func(l struct{ Peer, State string }) bool { return l.Peer == string(to) && l.State == state })
	})
	m.note("%s says that its link to %s is %s", of, to, state)
}

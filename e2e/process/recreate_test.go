package process

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A topic is deleted and made again under traffic, while one region is dead and
// has the old one on its disk, and a link is cut. Nothing of the first topic
// comes back, nothing of the second is missing anywhere.
func TestI3TopicIsRecreatedWhileARegionIsAway(t *testing.T) {
	m := Start(t, "us", "eu", "ap")
	m.create("us", "again", 2)
	old := m.Produce("again", 2, 1)
	old.Progress(100, "us", "eu", "ap")
	m.Kill("ap")
	m.Link("us", "eu", "cut=true")
	old.Progress(100, "us", "eu")

	m.remove("us", "again")
	m.awaitTopic(m.Region("us"), "again", false)
	m.awaitTopic(m.Region("eu"), "again", false) // the document tells it, no link does
	old.Abandon()
	m.note("the topic is deleted in us and eu")
	m.create("us", "again", 3, "us")
	fresh := m.Produce("again", 3, 1, "us")
	fresh.Progress(100, "us")
	m.Heal()
	m.awaitPartitions("eu", "again", 3)
	m.Restart("ap")
	m.awaitPartitions("ap", "again", 3)
	late := m.Produce("again", 3, 1, "eu", "ap")
	late.Progress(100, "eu", "ap")
	fresh.Finish()
	late.Finish()
	m.Verify("again")
	fresh.Check(m, late)
	m.Stop()
}

// remove deletes a topic.
func (m *Mesh) remove(at rhumb.RegionName, topic string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	if _, err := kadm.NewClient(Client(m.t, m.Region(at).Kafka)).DeleteTopic(ctx, topic); err != nil {
		m.t.Fatalf("delete %s in %s: %v", topic, at, err)
	}
}

package clients

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// end gives the end of partition 0 of a topic, 0 while the region is away.
func end(t *testing.T, kafka, topic string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), process.Limit)
	defer cancel()
	c := process.Client(t, kafka)
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		return 0
	}
	o, _ := ends.Lookup(topic, 0)
	return o.Offset
}

// franz-go produces the file line by line while the region is killed twice in
// the middle. It keeps trying; no line is lost or doubled.
func TestI3FranzThroughTwoKills(t *testing.T) {
	m := process.Start(t, "us", "eu", "ap")
	us := m.Region("us")
	lines := realFile(t, size())
	c := process.Client(t, us.Kafka, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("source"), kgo.MaxBufferedRecords(2000),
		kgo.ProducerBatchMaxBytes(32<<10))
	stored := make(chan struct{}, len(lines)) // never blocks
	go func() {
		for _, line := range lines {
			c.Produce(context.Background(), kgo.StringRecord(line), func(r *kgo.Record, err error) {
				if err != nil {
					t.Errorf("%.20s: %v", r.Value, err)
				}
				stored <- struct{}{}
			})
		}
	}()
	for i := range lines {
		if i == len(lines)/4 || i == len(lines)/2 {
			m.Kill("us")
			m.Restart("us")
		}
		<-stored
	}
	m.Verify("source")
	for _, r := range m.Regions {
		got := process.Read(t, r.Kafka, "source")[0]
		if len(got) != len(lines) {
			t.Errorf("%s holds %d lines, want %d", r.Name, len(got), len(lines))
		}
		for i := range min(len(got), len(lines)) {
			if string(got[i].Value) != lines[i] {
				t.Errorf("%s: line %d is %q, want %q", r.Name, i, got[i].Value, lines[i])
				break
			}
		}
	}
}

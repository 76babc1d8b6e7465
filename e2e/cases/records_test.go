package cases

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
)

// topicOf gives a topic of public/default.
func topicOf(name string) rhumb.Topic {
	return rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: rhumb.TopicName(name)}
}

var orders = topicOf("orders")

// batch is what a producer sends in one piece.
type batch struct {
	producer   int64 // 0: not idempotent
	sequence   int32
	time       time.Time // zero: now
	compressed bool
	values     []string
}

func (b batch) encode() ([]byte, codec.BatchHeader, error) {
	at := b.time
	if at.IsZero() {
		at = time.Now()
	}
	out := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(b.values) - 1), FirstTimestamp: at.UnixMilli(),
		MaxTimestamp: at.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(b.values)),
	}
	if b.producer != 0 {
		out.ProducerID, out.ProducerEpoch, out.FirstSequence = b.producer, 0, b.sequence
	}
	for i, v := range b.values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // less the one byte of a length of zero
		out.Records = r.AppendTo(out.Records)
	}
	if b.compressed {
		out.Attributes = 1 // gzip
		out.Records = zip(out.Records)
	}
	raw := out.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], codec.Checksum(raw[21:]))
	h, err := codec.CheckBatch(raw)
	return raw, h, err
}

func zip(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	w.Write(raw) // a bytes.Buffer takes everything
	w.Close()
	return out.Bytes()
}

// partition gives a partition that must be there.
func (n *node) partition(t rhumb.Topic, i int) region.PartitionInfo {
	n.mesh.Helper()
	info, ok := n.region().Topic(t)
	if !ok || i >= len(info.Partitions) || !info.Partitions[i].Ready {
		n.mesh.Fatalf("region %s has no partition %d of %s", n.name, i, t.Name)
	}
	return info.Partitions[i]
}

func (n *node) has(t rhumb.Topic, partitions int) bool {
	info, ok := n.region().Topic(t)
	return ok && info.Ready() && len(info.Partitions) == partitions
}

// create makes a topic, under the deletion count that the mesh knows.
func (n *node) create(t rhumb.Topic, partitions int32, configs map[string]string) {
	n.mesh.Helper()
	ctx, cancel := context.WithTimeout(n.mesh.ctx, patience)
	defer cancel()
	_, err := n.region().CreateTopic(ctx, region.TopicSpec{
		Topic: t, Partitions: partitions, Configs: configs, Deletions: n.region().Deletions(t)})
	n.mesh.must(err)
}

// everywhere waits until all running regions have the topic.
func (ms *mesh) everywhere(t rhumb.Topic, partitions int) {
	ms.Helper()
	for _, n := range ms.nodes {
		ms.until("topic in "+string(n.name), func() bool { return n.running == nil || n.has(t, partitions) })
	}
}

// append appends a batch and waits for its answer.
func (n *node) append(t rhumb.Topic, partition int, b batch) region.AppendResult {
	n.mesh.Helper()
	raw, header, err := b.encode()
	n.mesh.must(err)
	answer := make(chan region.AppendResult, 1)
	n.region().Append(n.partition(t, partition).Ref, region.AppendRequest{Batch: raw, Header: header}, func(r region.AppendResult) { answer <- r })
	return <-answer
}

func (n *node) produce(t rhumb.Topic, partition int, values ...string) {
	n.mesh.Helper()
	n.mesh.must(n.append(t, partition, batch{values: values}).Err)
}

// read gives a partition's log as it is stored.
func (n *node) read(t rhumb.Topic, partition int) []region.Stored {
	n.mesh.Helper()
	p := n.partition(t, partition)
	st, _ := n.region().State(p.Ref)
	var all []region.Stored
	for from := st.LogStart; from < st.End; {
		got, err := n.region().Read(p.Ref, region.Query{From: from, Limit: math.MaxInt64, MaxBytes: 1 << 20})
		n.mesh.must(err)
		for _, b := range got {
			all = append(all, b)
			from = b.Base + (b.Envelope.Last - b.Envelope.First) + 1
		}
	}
	return all
}

// from gives the values of a log that were published in one region, in the
// order of the log.
func (n *node) from(origin *node, t rhumb.Topic, partition int) []string {
	n.mesh.Helper()
	var values []string
	for _, b := range n.read(t, partition) {
		if b.Envelope.Region == origin.running.Self().Number {
			values = append(values, n.values(b.Batch)...)
		}
	}
	return values
}

func (n *node) values(raw []byte) []string {
	n.mesh.Helper()
	var b kmsg.RecordBatch
	n.mesh.must(b.ReadFrom(raw))
	rest := b.Records
	if b.Attributes&7 != 0 {
		r, err := gzip.NewReader(bytes.NewReader(rest))
		n.mesh.must(err)
		rest, err = io.ReadAll(r)
		n.mesh.must(err)
	}
	var values []string
	for len(rest) > 0 {
		length, k := binary.Varint(rest)
		var r kmsg.Record
		n.mesh.must(r.ReadFrom(rest[:k+int(length)]))
		values = append(values, string(r.Value))
		rest = rest[k+int(length):]
	}
	return values
}

// copied reports whether dest accounts for all that source published.
func (ms *mesh) copied(source, dest *node, t rhumb.Topic, partition int) bool {
	p := source.partition(t, partition)
	st, _ := source.region().State(p.Ref)
	have, _ := dest.region().State(dest.partition(t, partition).Ref)
	for _, w := range have.Watermarks {
		if w.Life == p.Life {
			return w.Offset >= st.OwnLast
		}
	}
	return st.OwnLast == rhumb.NoOffset
}

func (ms *mesh) untilCopied(source, dest *node, t rhumb.Topic, partition int) {
	ms.Helper()
	ms.until("everything of "+string(source.name)+" in "+string(dest.name), func() bool { return ms.copied(source, dest, t, partition) })
}

// flow gives what a region says of one partition's flow to another region.
func (n *node) flow(to *node, t rhumb.Topic, partition int32) replicator.PartitionStatus {
	n.mesh.Helper()
	for _, l := range n.running.Links().Status().Links {
		for _, p := range l.Partitions {
			if l.Peer == to.name && p.Topic == t && p.Partition == partition {
				return p
			}
		}
	}
	return replicator.PartitionStatus{}
}

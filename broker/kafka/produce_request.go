package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Limits of a Produce request.
const (
	maxProduceEntries     = 100_000 // topics and partitions, which cost memory even if empty
	defaultProduceTimeout = 30 * time.Second
	maxProduceTimeout     = 5 * time.Minute
)

// What depends on the version of a Produce request.
const (
	produceWithZstd = 7
	produceWithIDs  = 13
)

// produceRequest is decoded by hand, not by kmsg: it is the largest and most
// frequent request, and its records stay where they were read.
type produceRequest struct {
	transactional bool
	acks          int16
	timeout       time.Duration
	topics        []produceTopic
}

type produceTopic struct {
	name  string
	id    [16]byte
	parts []producePart
}

type producePart struct {
	index   int32
	records []byte
	sum     *uint32 // of records, if it is known: see broker.AppendItem
	answer  broker.AppendAnswer
}

// producePlace finds the part of an item that went to the broker.
type producePlace struct{ topic, part int }

func decodeProduce(r *request) (*produceRequest, error) {
	compact := r.flexible
	d := decoder{b: r.body}
	p := &produceRequest{transactional: d.nullable(compact, false) != nil}
	p.acks = d.int16()
	p.timeout = time.Duration(d.int32()) * time.Millisecond
	entries := 0
	for n := d.length(compact, true); n > 0 && !d.bad && entries <= maxProduceEntries; n-- {
		entries++
		var t produceTopic
		if r.version >= produceWithIDs {
			copy(t.id[:], d.bytes(len(t.id)))
		} else {
			t.name = string(d.nullable(compact, false))
		}
		for m := d.length(compact, true); m > 0 && !d.bad && entries <= maxProduceEntries; m-- {
			entries++
			part := producePart{index: d.int32(), records: d.nullable(compact, true)}
			if b := r.sums.of(len(part.records), len(d.b)); b != nil {
				part.sum = &b.crc
			}
			t.parts = append(t.parts, part)
			if compact {
				d.tags()
			}
		}
		if compact {
			d.tags()
		}
		p.topics = append(p.topics, t)
	}
	if compact {
		d.tags()
	}
	if d.bad || entries > maxProduceEntries {
		return nil, fmt.Errorf("%w: Produce version %d", errMalformed, r.version)
	}
	return p, nil
}

// wait is how long the answer may take.
func (p *produceRequest) wait() time.Duration {
	if p.timeout <= 0 {
		return defaultProduceTimeout
	}
	return min(p.timeout, maxProduceTimeout)
}

// items gives what goes to the broker, and for each item its place here. What
// is refused before that has its answer already.
func (p *produceRequest) items(r *request) ([]broker.AppendItem, []producePlace) {
	var items []broker.AppendItem
	var places []producePlace
	for i := range p.topics {
		t := &p.topics[i]
		info, err := r.caller.findTopic(r.version >= produceWithIDs, t.name, t.id)
		if e := p.refuse(); e != nil {
			err = e
		}
		for j := range t.parts {
			part := &t.parts[j]
			part.answer = broker.AppendAnswer{Base: rhumb.NoOffset, LogStart: rhumb.NoOffset, AppendTime: -1, Err: err}
			if err == nil {
				part.answer.Err = checkRecords(part.records, r.version)
			}
			if part.answer.Err == nil {
				items = append(items, broker.AppendItem{Topic: info, Partition: part.index, Records: part.records, Sum: part.sum})
				places = append(places, producePlace{i, j})
			}
		}
	}
	return items, places
}

// refuse gives what makes the whole request impossible.
func (p *produceRequest) refuse() error {
	switch {
	case p.transactional:
		return errTransactional
	case p.acks < -1 || p.acks > 1:
		return withCode(codeInvalidRequiredAcks, fmt.Sprintf("acks %d, want 0, 1 or -1", p.acks))
	}
	return nil
}

// checkRecords checks what depends on the version of the request.
func checkRecords(records []byte, version int16) error {
	if len(records) == 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "no record batch")
	}
	h, err := codec.ParseBatch(records)
	if err != nil {
		return nil // the broker says what is wrong
	}
	if version < produceWithZstd && h.Attributes&codec.AttrCodecMask == codec.CodecZstd {
		return withCode(codeUnsupportedCompressionType, "zstd needs Produce version 7")
	}
	return nil
}

// refusal is the first error of a partition.
func (p *produceRequest) refusal() error {
	for i := range p.topics {
		for j := range p.topics[i].parts {
			if err := p.topics[i].parts[j].answer.Err; err != nil {
				return err
			}
		}
	}
	return nil
}

// recordFaults names the records for which a batch was refused (KIP-467).
func recordFaults(err error) []kmsg.ProduceResponseTopicPartitionErrorRecord {
	var refused *broker.RecordsError
	if !errors.As(err, &refused) {
		return nil
	}
	var out []kmsg.ProduceResponseTopicPartitionErrorRecord
	for _, f := range refused.Faults {
		r := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		r.RelativeOffset, r.ErrorMessage = f.Index, ptr(f.Text)
		out = append(out, r)
	}
	return out
}

func (p *produceRequest) response(version int16) *kmsg.ProduceResponse {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = version
	resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(p.topics))
	for i := range p.topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = p.topics[i].name, p.topics[i].id
		t.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(p.topics[i].parts))
		for j := range p.topics[i].parts {
			part := &p.topics[i].parts[j]
			a := kmsg.NewProduceResponseTopicPartition()
			a.Partition = part.index
			a.ErrorCode = codeOf(scopeProduce, part.answer.Err)
			a.ErrorMessage = text(part.answer.Err)
			a.BaseOffset = int64(part.answer.Base)
			a.LogAppendTime = part.answer.AppendTime
			a.LogStartOffset = int64(part.answer.LogStart)
			a.ErrorRecords = recordFaults(part.answer.Err)
			t.Partitions = append(t.Partitions, a)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

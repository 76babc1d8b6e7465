package kafka

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DescribeProducers (API 61): the idempotent producers that partitions remember.
//
// Version 0, flexible. A partition is answered once, and an answer has an end.
func init() {
	register(api{key: 61, min: 0, max: 0, handle: decodes(describeProducers)})
}

// maxDescribedProducers bounds the producers in one answer, unless they are all of
// one partition.
const maxDescribedProducers = 100_000

func describeProducers(ctx context.Context, r *request, req *kmsg.DescribeProducersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	names := counted(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) string { return t.Topic })
	told := 0
	for _, ask := range req.Topics {
		if names.next(ask.Topic) == answered {
			continue
		}
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = ask.Topic
		info, err := r.caller.findTopic(false, ask.Topic, [16]byte{})
		slices.Sort(ask.Partitions)
		for _, index := range slices.Compact(ask.Partitions) {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = index
			perr := err
			var list []broker.ProducerState
			if perr == nil {
				list, perr = r.conn.server.broker.Producers(ctx, info, index)
			}
			if told += len(list); told > maxDescribedProducers && told > len(list) {
				list, perr = nil, errTooMany
			}
			p.ErrorCode, p.ErrorMessage = codeOf(scopeRead, perr), text(perr)
			for _, known := range list {
				one := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				one.ProducerID, one.ProducerEpoch = known.ID, int32(known.Epoch)
				one.LastSequence, one.LastTimestamp = known.LastSequence, known.LastUse
				one.CoordinatorEpoch, one.CurrentTxnStartOffset = -1, -1
				p.ActiveProducers = append(p.ActiveProducers, one)
			}
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

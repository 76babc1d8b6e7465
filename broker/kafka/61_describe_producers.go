package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DescribeProducers (API 61): the idempotent producers that partitions remember.
//
// Version 0, flexible.
func init() {
	register(api{key: 61, min: 0, max: 0, handle: decodes(describeProducers)})
}

func describeProducers(ctx context.Context, r *request, req *kmsg.DescribeProducersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, ask := range req.Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = ask.Topic
		info, err := r.caller.findTopic(false, ask.Topic, [16]byte{})
		for _, index := range ask.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = index
			perr := err
			var list []broker.ProducerState
			if perr == nil {
				list, perr = r.conn.server.broker.Producers(ctx, info, index)
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

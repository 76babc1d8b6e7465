package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// OffsetDelete (API 47): forgets positions of a group in topics that its members
// do not read.
//
// Version 0.
func init() { register(api{key: 47, min: 0, max: 0, handle: decodes(offsetDelete)}) }

func offsetDelete(ctx context.Context, r *request, req *kmsg.OffsetDeleteRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	key, err := r.caller.group(req.Group)
	if err != nil {
		resp.ErrorCode = codeOf(scopeGroup, err)
		return resp, nil
	}
	var asked []broker.OffsetCommit
	var places []*int16 // of their error codes
	for i := range req.Topics {
		ask := &req.Topics[i]
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic, t.Partitions = ask.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(ask.Partitions))
		info, err := r.caller.findTopic(false, ask.Topic, [16]byte{})
		for j, p := range ask.Partitions {
			out := &t.Partitions[j]
			out.Partition, out.ErrorCode = p.Partition, codeOf(scopeRead, err)
			switch {
			case err != nil:
			case p.Partition < 0 || int(p.Partition) >= len(info.Partitions):
				out.ErrorCode = codeUnknownTopicOrPartition
			default:
				asked = append(asked, broker.OffsetCommit{TopicID: info.ID, Topic: info.Topic, Partition: p.Partition})
				places = append(places, &out.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, t)
	}
	done := make(chan error, 1)
	var results []error // read after done
	r.conn.server.broker.Coordinator().DeleteOffsets(key, asked, func(errs []error, err error) {
		results = errs
		done <- err
	})
	if err := outcome(ctx, done); err != nil {
		resp.ErrorCode, resp.Topics = codeOf(scopeGroup, err), nil
		return resp, nil
	}
	for i, err := range results {
		*places[i] = codeOf(scopeGroup, err)
	}
	return resp, nil
}

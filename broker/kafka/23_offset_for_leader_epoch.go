package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch (API 23): where a leader epoch ended, by which consumers
// notice that a log was cut.
//
// Versions 2 to 4:
//   - 3: replica id, -2 for consumers; it makes no difference
//   - 4: flexible
func init() {
	register(api{key: 23, min: 2, max: 4, handle: decodes(offsetForLeaderEpoch)})
}

func offsetForLeaderEpoch(_ context.Context, r *request, req *kmsg.OffsetForLeaderEpochRequest) (kmsg.Response, error) {
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range req.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = req.Topics[i].Topic
		info, err := r.caller.findTopic(false, t.Topic, [16]byte{})
		for _, ask := range req.Topics[i].Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.LeaderEpoch, p.EndOffset = ask.Partition, -1, -1
			perr := err
			if perr == nil {
				epoch, end, e := s.broker.EpochEnd(info, ask.Partition, ask.CurrentLeaderEpoch, ask.LeaderEpoch)
				p.LeaderEpoch, p.EndOffset, perr = epoch, int64(end), e
			}
			p.ErrorCode = codeOf(scopeRead, perr)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

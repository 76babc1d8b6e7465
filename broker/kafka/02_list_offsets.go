package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// ListOffsets (API 2): looks positions up, also by time.
//
// Versions 1 to 11:
//   - 2: isolation level (without transactions both are the same)
//   - 4: leader epochs
//   - 6: flexible
//   - 7: -3, the record with the largest timestamp
//   - 8: -4, the local log start
//   - 9: -5, the last tiered offset: nothing is tiered, so there is none
//   - 10: timeout, which nothing here needs
//   - 11: -6, the first offset waiting to be tiered: there is none
func init() {
	register(api{key: 2, min: 1, max: 11, handle: decodes(listOffsets)})
}

// Timestamps that are questions.
const (
	askEnd           = -1
	askStart         = -2
	askLargest       = -3
	askLocalStart    = -4
	askLastTiered    = -5
	askPendingTiered = -6
)

func listOffsets(_ context.Context, r *request, req *kmsg.ListOffsetsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for i := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = req.Topics[i].Topic
		info, err := r.caller.findTopic(false, t.Topic, [16]byte{})
		for j := range req.Topics[i].Partitions {
			ask := &req.Topics[i].Partitions[j]
			p := kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition = ask.Partition
			f := broker.Found{Offset: -1, Timestamp: -1, LeaderEpoch: -1}
			perr := err
			if perr == nil {
				f, perr = r.conn.server.lookup(info, ask)
			}
			p.ErrorCode = codeOf(scopeRead, perr)
			p.Offset, p.Timestamp, p.LeaderEpoch = int64(f.Offset), f.Timestamp, f.LeaderEpoch
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func (s *Server) lookup(t *broker.TopicInfo, ask *kmsg.ListOffsetsRequestTopicPartition) (broker.Found, error) {
	b, partition, epoch := s.broker, ask.Partition, ask.CurrentLeaderEpoch
	switch ask.Timestamp {
	case askEnd:
		return b.End(t, partition, epoch)
	case askStart, askLocalStart:
		return b.Earliest(t, partition, epoch)
	case askLargest:
		return b.Latest(t, partition, epoch)
	case askLastTiered, askPendingTiered:
		state, err := b.State(t, partition)
		if err == nil {
			err = broker.CheckEpoch(state, epoch)
		}
		return broker.Found{Offset: -1, Timestamp: -1, LeaderEpoch: -1}, err
	}
	if ask.Timestamp < 0 {
		return broker.Found{Offset: -1, Timestamp: -1, LeaderEpoch: -1},
			withCode(codeUnsupportedVersion, "unknown special timestamp")
	}
	return b.ByTime(t, partition, epoch, ask.Timestamp)
}

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// DeleteRecords (API 21): moves log starts up.
//
// Versions 0 to 2; 2 is flexible. Offset -1 means the high watermark. Topics that
// are only compacted keep their records: POLICY_VIOLATION.
func init() {
	register(api{key: 21, min: 0, max: 2, handle: decodes(deleteRecords)})
}

func deleteRecords(ctx context.Context, r *request, req *kmsg.DeleteRecordsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for i := range req.Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = req.Topics[i].Topic
		info, err := r.caller.findTopic(false, t.Topic, [16]byte{})
		for _, ask := range req.Topics[i].Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = ask.Partition, -1
			perr := err
			if perr == nil {
				var start rhumb.Offset
				start, perr = s.broker.DeleteRecords(ctx, info, ask.Partition, rhumb.Offset(ask.Offset))
				p.LowWatermark = int64(start)
				if rhumb.KindOf(perr) == rhumb.KindForbidden {
					perr = withCode(codePolicyViolation, perr.Error())
				}
			}
			p.ErrorCode = codeOf(scopeRead, perr)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

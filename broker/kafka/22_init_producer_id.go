package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId (API 22): an id for an idempotent producer.
//
// Versions 0 to 5:
//   - 2: flexible
//   - 3: the id that the producer had; it gets a new one, which is always right
//
// A transactional id is refused.
func init() {
	register(api{key: 22, min: 0, max: 5, handle: decodes(initProducerID)})
}

func initProducerID(ctx context.Context, r *request, req *kmsg.InitProducerIDRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if req.TransactionalID != nil {
		resp.ErrorCode = codeOf(scopeGroup, errTransactional)
		return resp, nil
	}
	if (req.ProducerID < 0) != (req.ProducerEpoch < 0) {
		resp.ErrorCode = codeInvalidRequest
		return resp, nil
	}
	id, err := r.conn.server.broker.ProducerID(ctx)
	if err != nil {
		resp.ErrorCode = codeOf(scopeGroup, err)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}

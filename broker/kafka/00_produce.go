package kafka

import (
	"context"
	"fmt"
	"net"

	"github.com/rhumbmq/rhumb/broker"
)

// Produce (API 0): appends one batch per partition.
//
// Versions 3 to 13; 0 to 2 are advertised and refused, as in Kafka 4, because
// librdkafka turns compression off without them.
//   - 7: zstd
//   - 8: error messages
//   - 9: flexible
//   - 10: leader hint (none is given: a node answers for what it leads)
//   - 13: topic ids
//
// All batches go to the region at once and in order. acks 1 and all both answer
// after commit; acks 0 has no answer, and an error closes the connection.
const produceKey int16 = 0

func init() {
	register(api{key: produceKey, min: 3, max: 13, fromZero: true, handle: produce})
}

func produce(_ context.Context, r *request) (reply, error) {
	p, err := decodeProduce(r)
	if err != nil {
		return nil, err
	}
	items, places := p.items(r)
	if p.acks == 0 {
		return nil, p.unanswered(r, items)
	}
	r.appending = true
	appends := r.conn.server.broker.Append(items, func(error) { r.release() })
	deadline := r.arrived.Add(p.wait())
	return func(ctx context.Context) response {
		answers := appends.Wait(ctx, deadline)
		for i, at := range places {
			p.topics[at.topic].parts[at.part].answer = answers[i]
		}
		return response{bufs: net.Buffers{p.response(r.version).AppendTo(nil)}}
	}, nil
}

// unanswered appends without an answer. Memory is bounded twice: by the budget
// that the request holds until it is stored, and by a token per request.
func (p *produceRequest) unanswered(r *request, items []broker.AppendItem) error {
	c := r.conn
	if err := p.refusal(); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	select {
	case c.unanswered <- struct{}{}:
	case <-c.ctx.Done():
		return errClosed
	}
	r.appending = true
	c.server.broker.Append(items, func(err error) {
		r.release()
		<-c.unanswered
		if err != nil {
			c.abort(fmt.Errorf("%w: %w", errRefused, err))
		}
	})
	return nil
}

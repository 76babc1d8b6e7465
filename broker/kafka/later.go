package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// errStopping is what those are told that wait while the server drains: clients
// look for the coordinator again.
var errStopping = rhumb.Errorf(rhumb.KindNotLeader, "the node is stopping")

// later makes the reply of an answer that comes from c. It gives otherwise as
// soon as there is nobody left to wait for: the client has gone, or the server
// drains. c has room for the answer, so that nobody waits to give it.
func later[A any](r *request, c <-chan A, otherwise A, encode func(A) kmsg.Response) reply {
	polls := r.conn.polls
	return func(context.Context) response {
		a := otherwise
		select {
		case a = <-c:
		case <-polls.Done():
			select {
			case a = <-c:
			default:
			}
		}
		return response{bufs: [][]byte{encode(a).AppendTo(nil)}}
	}
}

// outcome waits for a write to a group, at most handlerWait. One that takes
// longer may happen yet.
func outcome(ctx context.Context, c <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, handlerWait)
	defer cancel()
	select {
	case err := <-c:
		return err
	case <-ctx.Done():
		return rhumb.Errorf(rhumb.KindTimeout, "not stored in time: %w", context.Cause(ctx))
	}
}

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/groups"
)

// Heartbeat (API 12): a member of a classic group is alive.
//
// Versions 0 to 4:
//   - 3: static members
//   - 4: flexible
//
// REBALANCE_IN_PROGRESS tells the member to join again.
func init() { register(api{key: 12, min: 0, max: 4, handle: decodes(heartbeat)}) }

func heartbeat(_ context.Context, r *request, req *kmsg.HeartbeatRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	key, err := r.caller.group(req.Group)
	if err == nil {
		ref := groups.MemberRef{ID: req.MemberID, Instance: orEmpty(req.InstanceID), Generation: req.Generation}
		err = r.conn.server.broker.Coordinator().Heartbeat(key, ref)
	}
	resp.ErrorCode = codeOf(scopeGroup, err)
	return resp, nil
}

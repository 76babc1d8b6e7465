package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/groups"
)

// SyncGroup (API 14): a member of a classic group gets its assignment; the leader
// brings all of them.
//
// Versions 0 to 5:
//   - 3: static members
//   - 4: flexible
//   - 5: protocol type and name, which must be the group's
//
// The answer comes when what the leader brought is stored. An assignment of
// consumers is never empty bytes.
func init() { register(api{key: 14, min: 0, max: 5, handle: syncGroup}) }

func syncGroup(_ context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.SyncGroupRequest](r)
	if err != nil {
		return nil, err
	}
	answer := make(chan groups.SyncAnswer, 1)
	key, err := r.caller.group(req.Group)
	if err != nil {
		answer <- groups.SyncAnswer{Err: err}
	} else {
		r.conn.server.broker.Coordinator().Sync(key, toSync(req), func(a groups.SyncAnswer) { answer <- a })
	}
	return later(r, answer, groups.SyncAnswer{Err: errStopping}, func(a groups.SyncAnswer) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
		resp.ErrorCode, resp.MemberAssignment = codeOf(scopeGroup, a.Err), a.Assignment
		if a.Err == nil {
			resp.ProtocolType, resp.Protocol = &a.Kind, &a.Protocol
		}
		return resp
	}), nil
}

func toSync(req *kmsg.SyncGroupRequest) groups.SyncRequest {
	s := groups.SyncRequest{
		Member: groups.MemberRef{ID: req.MemberID, Instance: orEmpty(req.InstanceID), Generation: req.Generation},
		Kind:   orEmpty(req.ProtocolType), Protocol: orEmpty(req.Protocol),
	}
	for _, a := range req.GroupAssignment {
		s.Assignments = append(s.Assignments, groups.Assignment{Member: a.MemberID, Bytes: a.MemberAssignment})
	}
	return s
}

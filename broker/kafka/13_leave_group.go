package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/groups"
)

// LeaveGroup (API 13): members leave a classic group at once.
//
// Versions 0 to 5:
//   - 3: several members, also by instance id alone, as admin tools do
//   - 4: flexible
//   - 5: reason, which is ignored
//
// Up to version 2 the member's error is that of the request.
func init() { register(api{key: 13, min: 0, max: 5, handle: decodes(leaveGroup)}) }

const leaveSeveral = 3

func leaveGroup(_ context.Context, r *request, req *kmsg.LeaveGroupRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	refs := []groups.MemberRef{{ID: req.MemberID}}
	if req.Version >= leaveSeveral {
		refs = refs[:0]
		for _, m := range req.Members {
			refs = append(refs, groups.MemberRef{ID: m.MemberID, Instance: orEmpty(m.InstanceID)})
		}
	}
	key, err := r.caller.group(req.Group)
	var errs []error
	if err == nil {
		errs, err = r.conn.server.broker.Coordinator().Leave(key, refs)
	}
	if err != nil {
		resp.ErrorCode = codeOf(scopeGroup, err)
		return resp, nil
	}
	if req.Version < leaveSeveral {
		resp.ErrorCode = codeOf(scopeGroup, errs[0])
		return resp, nil
	}
	for i, m := range req.Members {
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = m.MemberID, m.InstanceID, codeOf(scopeGroup, errs[i])
		resp.Members = append(resp.Members, out)
	}
	return resp, nil
}

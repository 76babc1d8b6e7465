package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator (API 10): which node keeps a group.
//
// Versions 0 to 6:
//   - 1: kinds of keys, error message
//   - 3: flexible
//   - 4: several keys
//   - 6: keys of share groups, which are not offered
//
// Groups live on this node. A transactional id is refused.
func init() {
	register(api{key: 10, min: 0, max: 6, handle: decodes(findCoordinator)})
}

const coordinatorKeys = 4 // first version with several keys

// Kinds of keys.
const (
	keyGroup       = 0
	keyTransaction = 1
)

func findCoordinator(_ context.Context, r *request, req *kmsg.FindCoordinatorRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < coordinatorKeys {
		c := r.conn.coordinator(r.caller, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, r.conn.coordinator(r.caller, req.CoordinatorType, key))
	}
	return resp, nil
}

func (c *conn) coordinator(who *caller, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key = key
	var err error
	switch kind {
	case keyGroup:
		_, err = who.group(key)
	case keyTransaction:
		err = errTransactional
	default:
		err = withCode(codeInvalidRequest, "only groups have coordinators here")
	}
	if err != nil {
		out.NodeID, out.Port = -1, -1
		out.ErrorCode, out.ErrorMessage = codeOf(scopeGroup, err), text(err)
		return out
	}
	out.NodeID = c.server.cfg.NodeID
	out.Host, out.Port = c.address()
	return out
}

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups (API 42): forgets groups without members, with their positions.
//
// Versions 0 to 2; 2 is flexible.
func init() { register(api{key: 42, min: 0, max: 2, handle: decodes(deleteGroups)}) }

func deleteGroups(ctx context.Context, r *request, req *kmsg.DeleteGroupsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for _, name := range req.Groups {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group = name
		g.ErrorCode = codeOf(scopeGroup, deleteGroup(ctx, r.caller, name))
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func deleteGroup(ctx context.Context, who *caller, name string) error {
	key, err := who.group(name)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	who.server.broker.Coordinator().DeleteGroup(key, func(err error) { done <- err })
	return outcome(ctx, done)
}

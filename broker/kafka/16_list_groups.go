package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (API 16): the groups that have positions stored.
//
// Versions 0 to 5:
//   - 3: flexible
//   - 4: states, also as a filter
//   - 5: types, also as a filter
//
// Nobody joins groups here, so each is empty, of the classic type, and without a
// protocol.
func init() {
	register(api{key: 16, min: 0, max: 5, handle: decodes(listGroups)})
}

// What every group is.
const (
	stateEmpty  = "Empty"
	typeClassic = "classic"
)

func listGroups(_ context.Context, r *request, req *kmsg.ListGroupsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	if !passes(req.StatesFilter, stateEmpty) || !passes(req.TypesFilter, typeClassic) {
		return resp, nil
	}
	for _, name := range r.conn.server.broker.GroupNames(r.caller.home.Tenant, r.caller.home.Namespace) {
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.GroupState, g.GroupType = name, stateEmpty, typeClassic
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// passes reports whether a filter lets a word through: an empty one lets all.
func passes(filter []string, word string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, word) })
}

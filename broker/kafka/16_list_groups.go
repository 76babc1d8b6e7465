package kafka

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups (API 16): the groups of the caller's namespace.
//
// Versions 0 to 5:
//   - 3: flexible
//   - 4: states, also as a filter
//   - 5: types, also as a filter
//
// All groups are of the classic type. One that only keeps positions is Empty and
// has no protocol type.
func init() {
	register(api{key: 16, min: 0, max: 5, handle: decodes(listGroups)})
}

const typeClassic = "classic"

func listGroups(_ context.Context, r *request, req *kmsg.ListGroupsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	if !passes(req.TypesFilter, typeClassic) {
		return resp, nil
	}
	for _, known := range r.conn.server.broker.Coordinator().List(r.caller.home.Tenant, r.caller.home.Namespace) {
		if state := known.State.String(); passes(req.StatesFilter, state) {
			g := kmsg.NewListGroupsResponseGroup()
			g.Group, g.ProtocolType, g.GroupState, g.GroupType = known.Name, known.Kind, state, typeClassic
			resp.Groups = append(resp.Groups, g)
		}
	}
	return resp, nil
}

// passes reports whether a filter lets a word through: an empty one lets all.
func passes(filter []string, word string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, word) })
}

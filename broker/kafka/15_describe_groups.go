package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// DescribeGroups (API 15): members of classic groups and what they have.
//
// Versions 0 to 6:
//   - 3: authorized operations
//   - 4: instance ids
//   - 5: flexible
//   - 6: a group that does not exist is an error with a message; before, it is
//     in the state Dead
//
// Metadata and assignments are shown of stable groups only, as in Kafka.
func init() { register(api{key: 15, min: 0, max: 6, handle: decodes(describeGroups)}) }

const describeNotFound = 6 // first version with the error GROUP_ID_NOT_FOUND

// groupOperations are the bits of what one may do with a group: read, delete,
// describe.
const groupOperations = 1<<3 | 1<<6 | 1<<8

func describeGroups(_ context.Context, r *request, req *kmsg.DescribeGroupsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range req.Groups {
		g := describeGroup(r.caller, name)
		if g.ErrorCode == codeGroupIDNotFound && req.Version < describeNotFound {
			g.ErrorCode = codeNone
		}
		if req.IncludeAuthorizedOperations && g.ErrorCode == codeNone && g.State != "Dead" {
			g.AuthorizedOperations = groupOperations
		}
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

func describeGroup(who *caller, name string) kmsg.DescribeGroupsResponseGroup {
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Group, g.AuthorizedOperations = name, notGiven
	key, err := who.group(name)
	if err != nil {
		g.ErrorCode, g.ErrorMessage = codeOf(scopeGroup, err), text(err)
		return g
	}
	d, err := who.server.broker.Coordinator().Describe(key)
	if err != nil {
		g.ErrorCode, g.ErrorMessage = codeOf(scopeGroup, err), text(err)
		if rhumb.KindOf(err) == rhumb.KindNotFound {
			g.State = "Dead"
			g.ErrorMessage = kmsg.StringPtr("Group " + name + " not found.") // as Kafka words it: tools print it
		}
		return g
	}
	g.State, g.ProtocolType, g.Protocol = d.State.String(), d.Kind, d.Protocol
	for _, m := range d.Members {
		out := kmsg.NewDescribeGroupsResponseGroupMember()
		out.MemberID, out.InstanceID, out.ClientID, out.ClientHost = m.ID, orNull(m.Instance), m.ClientID, m.Host
		out.ProtocolMetadata, out.MemberAssignment = m.Metadata, m.Assignment
		g.Members = append(g.Members, out)
	}
	return g
}

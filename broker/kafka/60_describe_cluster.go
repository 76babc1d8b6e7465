package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster (API 60): the nodes of this region.
//
// Versions 0 to 2, all flexible:
//   - 1: kind of endpoint; there are no controllers to ask for
//   - 2: fenced nodes, of which there are none
func init() {
	register(api{key: 60, min: 0, max: 2, handle: decodes(describeCluster)})
}

// Kinds of endpoints. Brokers can be asked for.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func describeCluster(_ context.Context, r *request, req *kmsg.DescribeClusterRequest) (kmsg.Response, error) {
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.EndpointType = req.EndpointType
	resp.ClusterAuthorizedOperations = r.caller.clusterOperations(req.IncludeClusterAuthorizedOperations)
	if req.Version >= 1 && req.EndpointType != endpointBrokers {
		err := withCode(codeUnsupportedEndpointType, "only brokers can be asked for")
		if req.EndpointType == endpointControllers {
			err = withCode(codeMismatchedEndpointType, "controllers cannot be asked for: this is a broker")
			resp.EndpointType = endpointBrokers
		}
		resp.ErrorCode, resp.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		return resp, nil
	}
	resp.ClusterID = s.broker.ClusterID().String()
	resp.ControllerID = s.cfg.NodeID
	node := kmsg.NewDescribeClusterResponseBroker()
	node.NodeID, node.Rack = s.cfg.NodeID, s.rack()
	node.Host, node.Port = r.conn.address()
	resp.Brokers = append(resp.Brokers, node)
	return resp, nil
}

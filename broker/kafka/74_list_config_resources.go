package kafka

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources (API 74): what has settings (KIP-1142).
//
// Versions 0 and 1, both flexible:
//   - 0: client metrics only, of which there are none
//   - 1: all kinds, or those that are named
func init() {
	register(api{key: 74, min: 0, max: 1, handle: decodes(listConfigResources)})
}

// listAllResources is the first version that lists more than client metrics.
const listAllResources = 1

func listConfigResources(_ context.Context, r *request, req *kmsg.ListConfigResourcesRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version < listAllResources {
		return resp, nil
	}
	node := strconv.Itoa(int(r.conn.server.cfg.NodeID))
	lists := map[kmsg.ConfigResourceType]func() []string{
		kmsg.ConfigResourceTypeTopic: func() (names []string) {
			for _, t := range r.caller.topics() {
				names = append(names, r.caller.nameOf(t.Topic))
			}
			return names
		},
		kmsg.ConfigResourceTypeBroker:        func() []string { return []string{node} },
		kmsg.ConfigResourceTypeBrokerLogger:  func() []string { return []string{node} },
		kmsg.ConfigResourceTypeClientMetrics: func() []string { return nil },
		kmsg.ConfigResourceTypeGroupConfig:   func() []string { return nil },
	}
	kinds := []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeBrokerLogger, kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic}
	if len(req.ResourceTypes) > 0 {
		kinds = nil
		for _, t := range req.ResourceTypes {
			kinds = append(kinds, kmsg.ConfigResourceType(t))
		}
	}
	for _, kind := range kinds {
		list, known := lists[kind]
		if !known {
			resp.ErrorCode, resp.ConfigResources = codeUnsupportedVersion, nil
			return resp, nil
		}
		for _, name := range list() {
			one := kmsg.NewListConfigResourcesResponseConfigResource()
			one.Name, one.Type = name, int8(kind)
			resp.ConfigResources = append(resp.ConfigResources, one)
		}
		lists[kind] = func() []string { return nil } // once, however often it is named
	}
	return resp, nil
}

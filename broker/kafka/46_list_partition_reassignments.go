package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListPartitionReassignments (API 46): clients start none, so there are none.
//
// Version 0, flexible.
func init() {
	register(api{key: 46, min: 0, max: 0, handle: decodes(listReassignments)})
}

func listReassignments(_ context.Context, _ *request, req *kmsg.ListPartitionReassignmentsRequest) (kmsg.Response, error) {
	return req.ResponseKind(), nil
}

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientQuotas (API 48): there are no quotas, whoever asks about whomever.
// kafka-configs asks before it shows a user's passwords.
//
// Versions 0 and 1; 1 is flexible.
func init() {
	register(api{key: 48, min: 0, max: 1, handle: decodes(describeClientQuotas)})
}

func describeClientQuotas(_ context.Context, _ *request, req *kmsg.DescribeClientQuotasRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
	return resp, nil
}

package kafka

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions (API 18): what this node speaks.
//
// Versions 0 to 4:
//   - 3: flexible request, name and version of the client's software
//   - 4: supported features may start at 0 (none are offered)
//
// The header of the answer never has tags. A version above ours is answered as
// version 0 with UNSUPPORTED_VERSION and the whole list, so that the client can
// ask again.
const apiVersionsKey int16 = 18

func init() {
	register(api{key: apiVersionsKey, min: 0, max: 4, handle: apiVersions})
}

const apiVersionsWithSoftware = 3

var softwarePattern = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func apiVersions(_ context.Context, r *request) (reply, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	if r.unsupported {
		resp.ErrorCode = codeUnsupportedVersion
	} else {
		req, err := decode[kmsg.ApiVersionsRequest](r)
		if err != nil {
			return nil, err
		}
		resp.Version = r.version
		if r.version >= apiVersionsWithSoftware &&
			!(softwarePattern.MatchString(req.ClientSoftwareName) && softwarePattern.MatchString(req.ClientSoftwareVersion)) {
			resp.ErrorCode = codeInvalidRequest
			return ready(resp), nil
		}
	}
	for _, a := range offered() {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key, a.min, a.max
		if a.fromZero {
			k.MinVersion = 0
		}
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	return ready(resp), nil
}

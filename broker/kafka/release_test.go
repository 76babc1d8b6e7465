package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// release is what a broker of Apache Kafka 4.2 advertises: key, lowest and
// highest version. What it has for transactions, ACLs, quotas, delegation tokens,
// KRaft, share and streams groups is left out.
var release = map[int16][2]int16{
	0: {0, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5},
	15: {0, 6}, 16: {0, 5}, 17: {0, 1}, 18: {0, 4}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4}, 32: {1, 4}, 33: {0, 2},
	34: {1, 2}, 35: {1, 4}, 36: {0, 2}, 37: {0, 3}, 42: {0, 2}, 43: {0, 2}, 44: {0, 1}, 45: {0, 1}, 46: {0, 0}, 47: {0, 0}, 48: {0, 1}, 50: {0, 0},
	51: {0, 0}, 60: {0, 2}, 61: {0, 0}, 68: {0, 1}, 69: {0, 1}, 74: {0, 1}, 75: {0, 0},
}

// Clients guess a broker's release from single ranges (kafka-python does): all
// must be those of one.
func TestAdvertisedVersionsAreOfOneRelease(t *testing.T) {
	h := start(t)
	for version := int16(0); version <= 4; version++ {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, "test", "1"
		for _, k := range ask[*kmsg.ApiVersionsResponse](h.dial(), req).ApiKeys {
			if want, ok := release[k.ApiKey]; !ok || want != [2]int16{k.MinVersion, k.MaxVersion} {
				t.Errorf("%s: %d to %d, the release has %v", kmsg.NameForKey(k.ApiKey), k.MinVersion, k.MaxVersion, want)
			}
		}
	}
}

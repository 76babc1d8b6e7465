package groups

import (
	"encoding/binary"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// parseSubscription reads the topics out of a consumer's metadata (Kafka's
// ConsumerProtocolSubscription):
//
//	int16 version
//	int32 number of topics, and for each: int16 length, name
//	… what later versions add
//
// It is asked only about retention and deletion of positions: nothing that a
// group does depends on it.
func parseSubscription(b []byte) ([]string, error) {
	bad := rhumb.Errorf(rhumb.KindInvalid, "not a consumer's subscription: %d bytes", len(b))
	if len(b) < 6 || int16(binary.BigEndian.Uint16(b)) < 0 {
		return nil, bad
	}
	n := int(int32(binary.BigEndian.Uint32(b[2:])))
	b = b[6:]
	if n < 0 || n > len(b)/2 {
		return nil, bad
	}
	topics := make([]string, 0, n)
	for range n {
		if len(b) < 2 {
			return nil, bad
		}
		size := int(int16(binary.BigEndian.Uint16(b)))
		if b = b[2:]; size < 0 || size > len(b) {
			return nil, bad
		}
		topics, b = append(topics, string(b[:size])), b[size:]
	}
	return topics, nil
}

// resubscribes reports whether a consumer reads other topics than before. The
// rest of its bytes differs with each process, and means no change.
func resubscribes(before, after []byte) bool {
	a, errA := parseSubscription(before)
	b, errB := parseSubscription(after)
	slices.Sort(a)
	slices.Sort(b)
	return errA == nil && errB == nil && !slices.Equal(a, b)
}

// names reports whether a list of topic names, as clients of a group's namespace
// write them, names a topic.
func names(list []string, k Key, t rhumb.Topic) bool {
	for _, name := range list {
		if name == t.Short() || name == t.String() || name == string(t.Name) && t.Tenant == k.Tenant && t.Namespace == k.Namespace {
			return true
		}
	}
	return false
}

package kafka

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup and SyncGroup bring what members say and are assigned, which may be more
// than other small requests hold: a thousand members, or one with many partitions.
// Their lists are short, so they are looked at before they are decoded, and need little
// room then.
const (
	joinGroupKey int16 = 11
	syncGroupKey int16 = 14
)

const (
	// maxGroupRequest bounds them; the budget of requests may say less.
	maxGroupRequest = 16 << 20
	// maxGroupEntries bounds their lists and tags, of those above MaxSmallRequest.
	maxGroupEntries = 100_000
)

// most is how large a request of this API may be.
func (r *request) most() int64 {
	cfg := &r.conn.server.cfg
	switch r.api.key {
	case produceKey:
		return int64(cfg.MaxRequest)
	case joinGroupKey, syncGroupKey:
		return max(int64(cfg.MaxSmallRequest), min(maxGroupRequest, cfg.RequestBudget/(4*decodedFactor)))
	}
	return int64(cfg.MaxSmallRequest)
}

// decodeRoom is what the codec takes at most to decode the request.
func (r *request) decodeRoom() (int64, error) {
	n := int64(len(r.body))
	if n <= int64(r.conn.server.cfg.MaxSmallRequest) {
		return n * decodeFactor, nil
	}
	d := decoder{b: r.body}
	entries := r.countEntries(&d)
	if d.bad || len(d.b) > 0 {
		return 0, fmt.Errorf("%w: %s version %d", errMalformed, kmsg.NameForKey(r.api.key), r.version)
	}
	if entries > maxGroupEntries {
		return 0, fmt.Errorf("%w: %s with %d entries, at most %d", errTooLarge, kmsg.NameForKey(r.api.key), entries, maxGroupEntries)
	}
	return 2*n + int64(entries)*decodeFactor, nil
}

// countEntries reads a JoinGroup or a SyncGroup to its end.
func (r *request) countEntries(d *decoder) (entries int) {
	compact := r.flexible
	d.nullable(compact, false) // group
	d.int32()                  // session timeout, or generation
	if r.api.key == joinGroupKey {
		if r.version >= 1 {
			d.int32() // rebalance timeout
		}
		d.nullable(compact, false) // member
		if r.version >= 5 {
			d.nullable(compact, false) // instance
		}
		d.nullable(compact, false) // protocol type
	} else {
		d.nullable(compact, false) // member
		if r.version >= 3 {
			d.nullable(compact, false) // instance
		}
		if r.version >= 5 {
			d.nullable(compact, false) // protocol type
			d.nullable(compact, false) // protocol
		}
	}
	for n := d.length(compact, true); n > 0 && !d.bad; n-- {
		entries++
		d.nullable(compact, false) // protocol, or member
		d.nullable(compact, true)  // metadata, or assignment
		if r.flexible {
			entries += d.tags()
		}
	}
	if r.api.key == joinGroupKey && r.version >= 8 {
		d.nullable(compact, false) // reason
	}
	if r.flexible {
		entries += d.tags()
	}
	return entries
}

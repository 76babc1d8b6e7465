package kafka

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// An assignment of more than 1 MiB is stored and handed out; one above the group's
// limit is an error, and the connection goes on.
func TestLargeAssignments(t *testing.T) { both(t, largeAssignments) }

func largeAssignments(t *testing.T, h *harness) {
	c := h.dial()
	j := c.member("g")
	req := syncRequest("g", j)
	req.GroupAssignment[0].MemberAssignment = make([]byte, 10<<20)
	if s := ask[*kmsg.SyncGroupResponse](c, req); s.ErrorCode != codeGroupMaxSizeReached {
		t.Errorf("10 MiB: code %d", s.ErrorCode)
	}
	want := bytes.Repeat([]byte("assign"), 500_000)
	req.GroupAssignment[0].MemberAssignment = want
	if s := ask[*kmsg.SyncGroupResponse](c, req); s.ErrorCode != 0 || !bytes.Equal(s.MemberAssignment, want) {
		t.Errorf("3 MB: code %d, %d bytes", s.ErrorCode, len(s.MemberAssignment))
	}
	join := joinRequest("other", "", 9)
	join.Protocols[0].Metadata = make([]byte, 2<<20)
	if resp := ask[*kmsg.JoinGroupResponse](c, join); resp.ErrorCode != codeMemberIDRequired {
		t.Errorf("a join of 2 MiB: code %d", resp.ErrorCode)
	}
	if err := h.server.requests.acquire(h.ctx(), h.server.cfg.RequestBudget-h.server.requests.share, false); err != nil {
		t.Errorf("a part of the budget is not given back: %v", err)
	}
}

// Lists and tags that a large request holds are counted before there is room for them.
func TestI9LargeGroupRequestsThatLie(t *testing.T) {
	h := start(t)
	many := kmsg.NewPtrSyncGroupRequest()
	many.Version, many.Group, many.MemberID = 5, "g", "m"
	many.GroupAssignment = make([]kmsg.SyncGroupRequestGroupAssignment, 600_000) // two bytes each
	tagged := kmsg.NewPtrSyncGroupRequest()
	tagged.Version, tagged.Group, tagged.MemberID = 5, "g", "m"
	for i := range uint32(300_000) {
		tagged.UnknownTags.Set(i, []byte{1})
	}
	huge := kmsg.NewPtrSyncGroupRequest()
	huge.Version, huge.Group = 5, "g"
	huge.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberAssignment: make([]byte, maxGroupRequest)}}
	other := kmsg.NewPtrLeaveGroupRequest()
	other.Version, other.Group = 5, string(make([]byte, 2<<20))
	for name, req := range map[string]kmsg.Request{"entries": many, "tags": tagged, "bytes": huge, "another api": other} {
		t.Run(name, func(t *testing.T) {
			c := h.dial()
			go c.nc.Write(frame(req, 1)) // it may be closed in the middle
			c.closed()
		})
	}
}

// What is counted is what the codec reads, at each version, to the last byte.
func TestEntriesAreCountedAsTheCodecReads(t *testing.T) {
	id, kind := "instance", "consumer"
	for v := int16(0); v <= 9; v++ {
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.Group, join.MemberID, join.InstanceID, join.ProtocolType, join.Reason = v, "g", "m", &id, kind, &kind
		join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "a", Metadata: []byte("xy")}, {Name: "b", Metadata: []byte{}}}
		reqs := []kmsg.Request{join}
		if v <= 5 {
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Version, sync.Group, sync.MemberID, sync.InstanceID, sync.ProtocolType = v, "g", "m", &id, &kind
			sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "a", MemberAssignment: []byte("xy")}, {MemberID: "b", MemberAssignment: []byte{}}}
			reqs = append(reqs, sync)
		}
		for _, req := range reqs {
			r := &request{api: apis[req.Key()], version: v, flexible: req.IsFlexible()}
			d := decoder{b: req.AppendTo(nil)}
			if n := r.countEntries(&d); n != 2 || d.bad || len(d.b) != 0 {
				t.Errorf("%s version %d: %d entries, %d bytes left, bad %v", kmsg.NameForKey(req.Key()), v, n, len(d.b), d.bad)
			}
		}
	}
}

// FuzzCountEntries: any bytes are counted, or refused, in one pass.
func FuzzCountEntries(f *testing.F) {
	f.Add(true, uint8(5), []byte("\x02g\x00\x00\x00\x01\x02m\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, sync bool, version uint8, body []byte) {
		key := joinGroupKey
		if sync {
			key = syncGroupKey
		}
		a := apis[key]
		v := int16(version) % (a.max + 1)
		r := &request{api: a, version: v, flexible: v >= a.flexible}
		d := decoder{b: body}
		if n := r.countEntries(&d); n > len(body) {
			t.Errorf("%d entries in %d bytes", n, len(body))
		}
	})
}

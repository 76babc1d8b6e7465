package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func syncRequest(group string, j *kmsg.JoinGroupResponse) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 5, group, j.Generation, j.MemberID
	req.ProtocolType, req.Protocol = j.ProtocolType, j.Protocol
	for _, m := range j.Members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: []byte(m.MemberID)})
	}
	return req
}

func beatRequest(group string, j *kmsg.JoinGroupResponse) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 4, group, j.Generation, j.MemberID
	return req
}

func leaveRequest(group, member string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, group
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
	return req
}

// member joins as every client does since KIP-394, alone in its group.
func (c *rawConn) member(group string) *kmsg.JoinGroupResponse {
	c.h.Helper()
	first := ask[*kmsg.JoinGroupResponse](c, joinRequest(group, "", 9))
	if first.ErrorCode != codeMemberIDRequired || first.MemberID == "" || first.Protocol != nil {
		c.h.Fatalf("%+v", first)
	}
	j := ask[*kmsg.JoinGroupResponse](c, joinRequest(group, first.MemberID, 9))
	if j.ErrorCode != 0 || j.LeaderID != j.MemberID || len(j.Members) != 1 || *j.Protocol != "range" || *j.ProtocolType != "consumer" {
		c.h.Fatalf("%+v", j)
	}
	return j
}

// A JoinGroup that waits does not keep its connection from being read: what comes
// behind it takes place, and ends the wait. Answers leave in order.
func TestP51WaitingJoinDoesNotBlockItsConnection(t *testing.T) {
	both(t, p51WaitingJoinDoesNotBlockItsConnection)
}

func p51WaitingJoinDoesNotBlockItsConnection(t *testing.T, h *harness) {
	c := h.dial()
	j := c.member("g")
	if s := ask[*kmsg.SyncGroupResponse](c, syncRequest("g", j)); s.ErrorCode != 0 || string(s.MemberAssignment) != j.MemberID || *s.Protocol != "range" {
		t.Fatalf("%+v", s)
	}
	join := joinRequest("g", "", 3) // of a second member: it waits for the first one
	waiting := c.send(join)
	beat, leave := beatRequest("g", j), leaveRequest("g", j.MemberID)
	second, third := c.send(beat), c.send(leave)
	if r := decodeAnswer[*kmsg.JoinGroupResponse](c, join, c.receive(waiting)); r.ErrorCode != 0 || r.Generation != j.Generation+1 || len(r.Members) != 1 {
		t.Fatalf("%+v", r)
	}
	if r := decodeAnswer[*kmsg.HeartbeatResponse](c, beat, c.receive(second)); r.ErrorCode != codeRebalanceInProgress {
		t.Fatalf("%+v", r)
	}
	if r := decodeAnswer[*kmsg.LeaveGroupResponse](c, leave, c.receive(third)); r.ErrorCode != 0 || r.Members[0].ErrorCode != 0 {
		t.Fatalf("%+v", r)
	}
}

// waits has a second member join a group of one, and waits until it waits.
func (h *harness) waits(first *rawConn, j *kmsg.JoinGroupResponse) (second *rawConn, join *kmsg.JoinGroupRequest, id int32) {
	h.Helper()
	second, join = h.dial(), joinRequest("g", "", 3)
	id = second.send(join)
	waitFor(h.TB.(*testing.T), "the second member", func() bool {
		return ask[*kmsg.HeartbeatResponse](first, beatRequest("g", j)).ErrorCode == codeRebalanceInProgress
	})
	return second, join, id
}

// A member whose connection breaks while it waits stays a member, and what it
// waited with is given back.
func TestGroupsWaitEndsWithTheConnection(t *testing.T) {
	h := start(t)
	a := h.dial()
	j := a.member("g")
	b, _, _ := h.waits(a, j)
	b.nc.Close()
	waitFor(t, "everything given back", func() bool {
		h.server.mu.Lock()
		defer h.server.mu.Unlock()
		return h.held() == 0 && len(h.server.open) == 1
	})
	again := ask[*kmsg.JoinGroupResponse](a, joinRequest("g", j.MemberID, 9))
	if again.ErrorCode != 0 || again.Generation != j.Generation+1 || len(again.Members) != 2 {
		t.Fatalf("%+v", again)
	}
}

// Who waits while the server drains is sent to look for the coordinator.
func TestShutdownAnswersGroups(t *testing.T) {
	h := start(t)
	a := h.dial()
	b, join, id := h.waits(a, a.member("g"))
	done := make(chan error, 1)
	go func() { done <- h.server.Shutdown(h.ctx()) }()
	if r := decodeAnswer[*kmsg.JoinGroupResponse](b, join, b.receive(id)); r.ErrorCode != codeNotCoordinator {
		t.Fatalf("%+v", r)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// What old versions answer differently. P31: old librdkafka joins with version 0.
func TestP31OldVersionsOfGroups(t *testing.T) { both(t, p31OldVersionsOfGroups) }

func p31OldVersionsOfGroups(t *testing.T, h *harness) {
	h.topic("t", 1, nil)
	c := h.dial()
	j := ask[*kmsg.JoinGroupResponse](c, joinRequest("g", "", 0))
	if j.ErrorCode != 0 || j.Protocol == nil || *j.Protocol != "range" {
		t.Fatalf("%+v", j)
	}
	sync := syncRequest("g", j)
	sync.Version = 0
	if s := ask[*kmsg.SyncGroupResponse](c, sync); s.ErrorCode != 0 || len(s.MemberAssignment) == 0 {
		t.Fatalf("%+v", s)
	}
	leave := leaveRequest("g", "")
	leave.Version, leave.MemberID = 2, "nobody"
	if l := ask[*kmsg.LeaveGroupResponse](c, leave); l.ErrorCode != codeUnknownMemberID {
		t.Fatalf("%+v", l)
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for version, want := range map[int16]int16{5: codeNone, 6: codeGroupIDNotFound} {
		describe.Version, describe.Groups = version, []string{"missing", "g"}
		d := ask[*kmsg.DescribeGroupsResponse](c, describe)
		if g := d.Groups[0]; g.State != "Dead" || g.ErrorCode != want || (g.ErrorMessage != nil) != (version == 6) {
			t.Fatalf("version %d: %+v", version, g)
		}
		if g := d.Groups[1]; g.State != "Stable" || g.Members[0].ClientID != "test" || g.Members[0].ClientHost != "/127.0.0.1" || g.Protocol != "range" {
			t.Fatalf("version %d: %+v", version, g)
		}
	}
	commit := commitRequest(8, func(r *kmsg.OffsetCommitRequest) { r.Group, r.Generation, r.MemberID = "missing", 3, "m" })
	for version, want := range map[int16]int16{8: codeIllegalGeneration, 9: codeGroupIDNotFound} {
		commit.Version = version
		if r := ask[*kmsg.OffsetCommitResponse](c, commit); r.Topics[0].Partitions[0].ErrorCode != want {
			t.Fatalf("version %d: %+v", version, r)
		}
	}
	commit.Group, commit.Generation, commit.MemberID = "g", -1, "" // as a reset by an admin tool
	if r := ask[*kmsg.OffsetCommitResponse](c, commit); r.Topics[0].Partitions[0].ErrorCode != codeUnknownMemberID {
		t.Fatalf("a reset while there are members: %+v", r)
	}
}

// TestP01AndP03DeletedTopicLeavesTheGroup: a deleted topic's positions are gone,
// for good; a new topic of the same name starts without any.
func TestP01AndP03DeletedTopicLeavesTheGroup(t *testing.T) {
	both(t, p01AndP03DeletedTopicLeavesTheGroup)
}

func p01AndP03DeletedTopicLeavesTheGroup(t *testing.T, h *harness) {
	h.topic("t1", 1, nil)
	h.topic("t2", 1, nil)
	a := h.admin()
	committed := kadm.Offsets{}
	committed.AddOffset("t1", 0, 1000, -1)
	committed.AddOffset("t2", 0, 5, -1)
	if r, err := a.CommitOffsets(h.ctx(), "g", committed); err != nil || r.Error() != nil {
		t.Fatal(r, err)
	}
	if _, err := a.DeleteTopics(h.ctx(), "t1"); err != nil {
		t.Fatal(err)
	}
	onlyT2 := func() {
		t.Helper()
		got, err := a.FetchOffsets(h.ctx(), "g")
		if _, ok := got.Lookup("t2", 0); err != nil || len(got) != 1 || !ok {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	onlyT2()
	h.topic("t1", 1, nil)
	onlyT2()
	if d, err := a.DescribeGroups(h.ctx(), "g"); err != nil || d["g"].Err != nil || d["g"].State != "Empty" {
		t.Fatal(d, err)
	}
}

// BenchmarkHeartbeats is one heartbeat over a socket, of one of a thousand groups.
func BenchmarkHeartbeats(b *testing.B) {
	h := start(b)
	joined := make([]*kmsg.JoinGroupResponse, 1000)
	c := h.dial()
	name := func(i int) string { return fmt.Sprint("group-", i%len(joined)) }
	for i := range joined {
		joined[i] = c.member(name(i))
		ask[*kmsg.SyncGroupResponse](c, syncRequest(name(i), joined[i]))
	}
	for i := 0; b.Loop(); i++ {
		if r := ask[*kmsg.HeartbeatResponse](c, beatRequest(name(i), joined[i%len(joined)])); r.ErrorCode != 0 {
			b.Fatal(r.ErrorCode)
		}
	}
}

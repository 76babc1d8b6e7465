package clients

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// commits makes a probe that commits an offset, of a group of its own where none
// is named.
func commits(name string, from int16, change func(*kmsg.OffsetCommitRequest, *kmsg.OffsetCommitRequestTopic)) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = numbered("committed", v), -1
		req.RetentionTimeMillis = -1
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = w.data()
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.LeaderEpoch, p.Metadata = 4, -1, kmsg.StringPtr("note")
		t.Partitions = append(t.Partitions, p)
		change(req, &t)
		t.TopicID = w.id(t.Topic)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

type (
	commitRequest = *kmsg.OffsetCommitRequest
	commitTopic   = *kmsg.OffsetCommitRequestTopic
)

var committing = []probe{
	commits("of a group without members", 0, func(commitRequest, commitTopic) {}),
	commits("without metadata", 0, func(r commitRequest, t commitTopic) {
		r.Group = "bare-" + r.Group
		t.Partitions[0].Metadata = nil
	}),
	commits("of an unknown partition", 0, func(_ commitRequest, t commitTopic) { t.Partitions[0].Partition = 9 }),
	commits("of an unknown topic", 0, func(_ commitRequest, t commitTopic) { t.Topic = "nowhere" }),
	commits("of a group without a name", 0, func(r commitRequest, _ commitTopic) { r.Group = "" }),
	commits("with too much metadata", 0, func(_ commitRequest, t commitTopic) {
		t.Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	}),
	commits("of a member that is not there", 0, func(r commitRequest, _ commitTopic) { r.MemberID, r.Generation = "somebody", 3 }),
	commits("with a generation and no member", 0, func(r commitRequest, _ commitTopic) { r.Generation = 3 }),
}

func fetchesOffsets(name string, from int16, group string, topic string, partitions ...int32) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = strings.ReplaceAll(group, "-vN", "-v10") // committed by the newest OffsetCommit
		if v >= 8 {
			g := kmsg.NewOffsetFetchRequestGroup()
			g.Group = req.Group
			if topic != "" {
				t := kmsg.NewOffsetFetchRequestGroupTopic()
				t.Topic, t.TopicID, t.Partitions = topic, w.id(topic), partitions
				g.Topics = append(g.Topics, t)
			}
			req.Groups = append(req.Groups, g)
			return req
		}
		if topic != "" {
			t := kmsg.NewOffsetFetchRequestTopic()
			t.Topic, t.Partitions = topic, partitions
			req.Topics = append(req.Topics, t)
		}
		return req
	}}
}

var committed = []probe{
	fetchesOffsets("of a partition", 0, "committed-vN", "data", 0), fetchesOffsets("of two partitions", 0, "committed-vN", "data", 0, 1),
	fetchesOffsets("of all", 2, "committed-vN", ""), fetchesOffsets("of an unknown partition", 0, "committed-vN", "data", 9),
	fetchesOffsets("of an unknown topic", 0, "committed-vN", "nowhere", 0), fetchesOffsets("of an unknown group", 0, "nobody", "data", 0),
	fetchesOffsets("of all of an unknown group", 2, "nobody", ""), fetchesOffsets("of a commit without metadata", 0, "bare-committed-vN", "data", 0),
}

func coordinates(name string, from int16, kind int8, keys ...string) probe {
	return probe{name, from, func(_ *world, v int16) kmsg.Request {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorType, req.CoordinatorKeys = keys[0], kind, keys
		return req
	}}
}

var coordinators = []probe{
	coordinates("of a group", 0, 0, "committed"), coordinates("of two groups", 4, 0, "committed", "other"), coordinates("of a group without a name", 0, 0, ""),
	coordinates("of an unknown kind", 1, 9, "committed"),
}

// What a consumer says that it wants, and gets: partition 0 of data.
var (
	subscription = []byte("\x00\x00\x00\x00\x00\x01\x00\x04data\xff\xff\xff\xff")
	assignment   = []byte("\x00\x00\x00\x00\x00\x01\x00\x04data\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff")
)

func joinRequest(group, member string, change ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", subscription
	req.Protocols = append(req.Protocols, p)
	for _, c := range change {
		c(req)
	}
	return req
}

// hold makes sure that a group has one member, which has its assignment, and
// gives it.
func (w *world) hold(group string) heldGroup {
	w.t.Helper()
	if h, is := w.held[group]; is {
		return h
	}
	first := w.ask(joinRequest(group, ""), 5).(*kmsg.JoinGroupResponse)
	joined := w.ask(joinRequest(group, first.MemberID), 5).(*kmsg.JoinGroupResponse)
	if joined.ErrorCode != 0 {
		w.t.Fatalf("join %s: %d", group, joined.ErrorCode)
	}
	h := heldGroup{joined.MemberID, joined.Generation}
	w.held[group] = h
	if code := w.ask(syncRequest(group, h), 3).(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		w.t.Fatalf("sync %s: %d", group, code)
	}
	return h
}

func syncRequest(group string, h heldGroup) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = group, h.member, h.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = h.member, assignment
	req.GroupAssignment = append(req.GroupAssignment, a)
	return req
}

func joins(name string, from int16, change func(*kmsg.JoinGroupRequest)) probe {
	return probe{name, from, func(_ *world, v int16) kmsg.Request {
		return joinRequest(numbered("joined", v)+"-"+dotted(name), "", change)
	}}
}

var joining = []probe{
	joins("without a member id", 0, func(*kmsg.JoinGroupRequest) {}),
	joins("of a static member", 5, func(r *kmsg.JoinGroupRequest) { r.InstanceID = kmsg.StringPtr("static") }),
	joins("of an unknown member", 0, func(r *kmsg.JoinGroupRequest) { r.MemberID = "somebody" }),
	joins("of a group without a name", 0, func(r *kmsg.JoinGroupRequest) { r.Group = "" }),
	joins("with a session of a millisecond", 0, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 }),
	joins("with a session of two days", 0, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 172_800_000 }),
	joins("without protocols", 0, func(r *kmsg.JoinGroupRequest) { r.Protocols = nil }),
	joins("without a kind of protocols", 0, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" }),
	{"again by the only member", 0, func(w *world, v int16) kmsg.Request {
		group := numbered("rejoined", v)
		return joinRequest(group, w.hold(group).member)
	}},
	{"with another protocol", 0, func(w *world, v int16) kmsg.Request {
		group := numbered("protocols", v)
		w.hold(group)
		return joinRequest(group, "", func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "other" })
	}},
	{"with another kind of protocols", 0, func(w *world, v int16) kmsg.Request {
		group := numbered("kinds", v)
		w.hold(group)
		return joinRequest(group, "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
	}},
}

// inGroup makes probes of requests that a member sends, rightly and wrongly.
func inGroup(ask func(group string, h heldGroup) kmsg.Request) []probe {
	with := func(name string, change func(group *string, h *heldGroup)) probe {
		return probe{name, 0, func(w *world, v int16) kmsg.Request {
			group := numbered("held", v)
			h := w.hold(group)
			change(&group, &h)
			return ask(group, h)
		}}
	}
	return []probe{
		with("of a member", func(*string, *heldGroup) {}),
		with("of a member that is not there", func(_ *string, h *heldGroup) { h.member = "somebody" }),
		with("with an old generation", func(_ *string, h *heldGroup) { h.generation-- }),
		with("with a coming generation", func(_ *string, h *heldGroup) { h.generation++ }),
		with("of an unknown group", func(group *string, _ *heldGroup) { *group = "nobody" }),
		with("of a group without a name", func(group *string, _ *heldGroup) { *group = "" }),
	}
}

var heartbeats = inGroup(func(group string, h heldGroup) kmsg.Request {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, h.member, h.generation
	return req
})

var syncing = append(inGroup(func(group string, h heldGroup) kmsg.Request { return syncRequest(group, h) }),
	probe{"with another protocol", 5, func(w *world, v int16) kmsg.Request {
		group := numbered("held", v)
		req := syncRequest(group, w.hold(group))
		req.Protocol = kmsg.StringPtr("other")
		return req
	}})

var leaving = []probe{
	leaves("of a member", 0, func(w *world, group string) (string, kmsg.LeaveGroupRequestMember) {
		h := w.hold(group)
		delete(w.held, group)
		return group, member(h.member, "")
	}),
	leaves("of a member that is not there", 0, func(w *world, group string) (string, kmsg.LeaveGroupRequestMember) {
		w.hold(group)
		return group, member("somebody", "")
	}),
	leaves("of a static member that is not there", 3, func(w *world, group string) (string, kmsg.LeaveGroupRequestMember) {
		w.hold(group)
		return group, member("", "static")
	}),
	leaves("of an unknown group", 0, func(*world, string) (string, kmsg.LeaveGroupRequestMember) { return "nobody", member("somebody", "") }),
	leaves("of a group without a name", 0, func(*world, string) (string, kmsg.LeaveGroupRequestMember) { return "", member("somebody", "") }),
}

func member(id, instance string) kmsg.LeaveGroupRequestMember {
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = id
	if instance != "" {
		m.InstanceID = &instance
	}
	return m
}

func leaves(name string, from int16, who func(w *world, group string) (string, kmsg.LeaveGroupRequestMember)) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrLeaveGroupRequest()
		group, m := who(w, numbered("left", v))
		req.Group, req.MemberID, req.Members = group, m.MemberID, []kmsg.LeaveGroupRequestMember{m}
		return req
	}}
}

func describesGroups(name string, group func(w *world, v int16) string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group(w, v)}
		req.IncludeAuthorizedOperations = true
		return req
	}}
}

var describingGroups = []probe{
	describesGroups("with a member", func(w *world, v int16) string { g := numbered("described", v); w.hold(g); return g }),
	describesGroups("with offsets only", func(*world, int16) string { return "committed-v9" }),
	describesGroups("that is not there", func(*world, int16) string { return "nobody" }),
	describesGroups("without a name", func(*world, int16) string { return "" }),
}

var listingGroups = []probe{
	{"in the state Dead", 4, func(*world, int16) kmsg.Request { return listRequest([]string{"Dead"}, nil) }},
	{"in a state that is none", 4, func(*world, int16) kmsg.Request { return listRequest([]string{"Asleep"}, nil) }},
	{"of the new kind", 5, func(*world, int16) kmsg.Request { return listRequest(nil, []string{"consumer"}) }},
	{"of a kind that is none", 5, func(*world, int16) kmsg.Request { return listRequest(nil, []string{"square"}) }},
	{"all", 0, func(*world, int16) kmsg.Request { return heldOnly{listRequest(nil, nil)} }},
	{"that are stable", 4, func(*world, int16) kmsg.Request {
		return heldOnly{listRequest([]string{"stable"}, []string{"Classic"})}
	}},
}

// heldOnly is a request whose answer is looked at for the groups that
// are held: many others are there.
type heldOnly struct{ *kmsg.ListGroupsRequest }

func (h heldOnly) ResponseKind() kmsg.Response {
	return &heldGroups{ListGroupsResponse: kmsg.ListGroupsResponse{Version: h.Version}}
}

type heldGroups struct{ kmsg.ListGroupsResponse }

func (h *heldGroups) ReadFrom(b []byte) error {
	err := h.ListGroupsResponse.ReadFrom(b)
	h.Groups = slices.DeleteFunc(h.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return !strings.HasPrefix(g.Group, "held-") })
	return err
}

func listRequest(states, kinds []string) *kmsg.ListGroupsRequest {
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter, req.TypesFilter = states, kinds
	return req
}

// emptied is a group that has offsets and no member.
func emptied(w *world, name string) string {
	req := commits("", 0, func(r commitRequest, _ commitTopic) { r.Group = name }).ask(w, 9)
	w.ask(req, 9)
	return name
}

var deletingGroups = []probe{
	deletesGroup("without members", func(w *world, v int16) string { return emptied(w, numbered("deleted", v)) }),
	deletesGroup("with a member", func(w *world, v int16) string { g := numbered("kept", v); w.hold(g); return g }),
	deletesGroup("that is not there", func(*world, int16) string { return "nobody" }),
	deletesGroup("without a name", func(*world, int16) string { return "" }),
}

func deletesGroup(name string, group func(w *world, v int16) string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group(w, v)}
		return req
	}}
}

var forgetting = []probe{
	forgets("of a partition", func(w *world) string { return emptied(w, "forgotten") }, "data", 0),
	forgets("of a partition without one", func(w *world) string { return emptied(w, "forgotten") }, "data", 1),
	forgets("of an unknown partition", func(w *world) string { return emptied(w, "forgotten") }, "data", 9),
	forgets("of an unknown topic", func(w *world) string { return emptied(w, "forgotten") }, "nowhere", 0),
	forgets("of an unknown group", func(*world) string { return "nobody" }, "data", 0),
	forgets("of a group without a name", func(*world) string { return "" }, "data", 0),
}

func forgets(name string, group func(*world) string, topic string, partition int32) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group(w)
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = topic
		p := kmsg.NewOffsetDeleteRequestTopicPartition()
		p.Partition = partition
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

// awaitCoordinators waits until every group has one. Kafka makes the topic where
// it keeps offsets when somebody asks for the first of them.
func (w *world) awaitCoordinators() {
	w.t.Helper()
	for i := range 30 {
		name := fmt.Sprintf("warm-%d", i)
		process.Until(w.t, name+" has a coordinator", func() bool {
			w.best(coordinates("", 0, 0, name).ask(w, 0))
			req := kmsg.NewPtrOffsetDeleteRequest()
			req.Group = name
			return w.best(req).(*kmsg.OffsetDeleteResponse).ErrorCode == kerr.GroupIDNotFound.Code
		})
	}
}

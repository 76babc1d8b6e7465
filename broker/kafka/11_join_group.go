package kafka

import (
	"context"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/groups"
)

// JoinGroup (API 11): become, or stay, a member of a classic group.
//
// Versions 0 to 9:
//   - 1: rebalance timeout; before, the session timeout stands for it
//   - 4: who has no member id is given one and comes again (KIP-394)
//   - 5: static members (KIP-345)
//   - 6: flexible
//   - 7: protocol type
//   - 8: reason, which is ignored
//   - 9: the leader may be told to leave assignments alone (KIP-814)
//
// Versions 0 and 1 are kept for librdkafka before 2.11 with Kerberos, as in
// Kafka 4.1. The answer comes when the join phase ends, and waits in its place
// among the connection's answers.
func init() { register(api{key: 11, min: 0, max: 9, handle: joinGroup}) }

// Versions of JoinGroup that change something here.
const (
	joinWithLimit    = 1
	joinNeedsID      = 4
	joinWithProtocol = 7
	joinSkips        = 9
)

func joinGroup(_ context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.JoinGroupRequest](r)
	if err != nil {
		return nil, err
	}
	answer := make(chan groups.JoinAnswer, 1)
	key, err := r.caller.group(req.Group)
	if err != nil {
		answer <- groups.JoinAnswer{Err: err, Member: req.MemberID, Generation: groups.NoGeneration}
	} else {
		r.conn.server.broker.Coordinator().Join(key, toJoin(r, req), func(a groups.JoinAnswer) { answer <- a })
	}
	otherwise := groups.JoinAnswer{Err: errStopping, Member: req.MemberID, Generation: groups.NoGeneration}
	return later(r, answer, otherwise, func(a groups.JoinAnswer) kmsg.Response { return joinResponse(req, &a) }), nil
}

func toJoin(r *request, req *kmsg.JoinGroupRequest) groups.JoinRequest {
	j := groups.JoinRequest{
		Member: req.MemberID, Instance: orEmpty(req.InstanceID), ClientID: r.clientID, Host: r.conn.clientHost(),
		Session: time.Duration(req.SessionTimeoutMillis) * time.Millisecond,
		Limit:   time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond,
		Kind:    req.ProtocolType, NeedsID: req.Version >= joinNeedsID, SkipsAssignment: req.Version >= joinSkips,
	}
	if req.Version < joinWithLimit {
		j.Limit = j.Session
	}
	for _, p := range req.Protocols {
		j.Protocols = append(j.Protocols, groups.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
	return j
}

func joinResponse(req *kmsg.JoinGroupRequest, a *groups.JoinAnswer) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation, resp.MemberID = codeOf(scopeGroup, a.Err), a.Generation, a.Member
	if req.Version < joinWithProtocol {
		resp.Protocol = ptr("")
	}
	if a.Err != nil {
		return resp
	}
	resp.ProtocolType, resp.Protocol, resp.LeaderID, resp.SkipAssignment = &a.Kind, &a.Protocol, a.Leader, a.Skip
	for _, m := range a.Members {
		out := kmsg.NewJoinGroupResponseMember()
		out.MemberID, out.InstanceID, out.ProtocolMetadata = m.ID, orNull(m.Instance), m.Metadata
		resp.Members = append(resp.Members, out)
	}
	return resp
}

// clientHost is how Kafka writes where a client is.
func (c *conn) clientHost() string {
	host, _, err := net.SplitHostPort(c.nc.RemoteAddr().String())
	if err != nil {
		host = "unknown"
	}
	return "/" + host
}

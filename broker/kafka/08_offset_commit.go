package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// OffsetCommit (API 8): stores positions of a group.
//
// Versions 2 to 10:
//   - 2 to 4: a retention time, which is ignored: positions do not expire
//   - 6: leader epochs
//   - 7: static members
//   - 8: flexible
//   - 9: epochs of members
//   - 10: topic ids
//
// Groups have no members here: consumers that assign partitions themselves
// commit with generation -1 and no member id; anything else is answered as by a
// group that nobody joined.
func init() {
	register(api{key: 8, min: 2, max: 10, handle: decodes(offsetCommit)})
}

const commitWithIDs = 10

// noGeneration is the generation of who is not a member.
const noGeneration = -1

func offsetCommit(ctx context.Context, r *request, req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	key, err := r.caller.group(req.Group)
	if err == nil {
		err = checkMember(req.Generation, req.MemberID)
	}
	var commits []broker.OffsetCommit
	for i := range req.Topics {
		ask := &req.Topics[i]
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = ask.Topic, ask.TopicID
		info, terr := r.caller.findTopic(req.Version >= commitWithIDs, ask.Topic, ask.TopicID)
		if err != nil {
			terr = err
		}
		for j := range ask.Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition = ask.Partitions[j].Partition
			c, perr := s.toCommit(info, &ask.Partitions[j], terr)
			if perr == nil {
				commits = append(commits, c)
			}
			p.ErrorCode = codeOfCommit(perr)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if err := s.broker.CommitOffsets(ctx, key, commits); err != nil {
		failCommits(resp, codeOf(scopeGroup, err))
	}
	return resp, nil
}

func checkMember(generation int32, member string) error {
	switch {
	case generation != noGeneration:
		return withCode(codeIllegalGeneration, "the group has no such generation")
	case member != "":
		return withCode(codeUnknownMemberID, "the group has no such member")
	}
	return nil
}

func (s *Server) toCommit(info *broker.TopicInfo, ask *kmsg.OffsetCommitRequestTopicPartition, err error) (broker.OffsetCommit, error) {
	if err != nil {
		return broker.OffsetCommit{}, err
	}
	c := broker.OffsetCommit{TopicID: info.ID, Topic: info.Topic, Partition: ask.Partition, Offset: rhumb.Offset(ask.Offset),
		LeaderEpoch: ask.LeaderEpoch}
	if ask.Metadata != nil {
		c.Metadata = *ask.Metadata
	}
	return c, s.broker.CheckCommit(info, c)
}

// codeOfCommit: a topic that is not there is no group that is not there.
func codeOfCommit(err error) int16 {
	if rhumb.KindOf(err) == rhumb.KindNotFound {
		return codeOf(scopeRead, err)
	}
	return codeOf(scopeGroup, err)
}

// failCommits gives the code to all partitions that had no error of their own.
func failCommits(resp *kmsg.OffsetCommitResponse, code int16) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			if p := &resp.Topics[i].Partitions[j]; p.ErrorCode == codeNone {
				p.ErrorCode = code
			}
		}
	}
}

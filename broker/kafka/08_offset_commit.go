package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// OffsetCommit (API 8): stores positions of a group.
//
// Versions 2 to 10:
//   - 2 to 4: a retention time, which is ignored: the server's counts
//   - 6: leader epochs
//   - 7: static members
//   - 8: flexible
//   - 9: epochs of members of the new protocol, which is not offered
//   - 10: topic ids
//
// A member commits with its id and generation. Consumers that assign partitions
// themselves, and admin tools, commit with generation -1 while the group is
// empty. Positions are handed to the region before the next request is read, so
// commits take place in the order in which they came; the answer waits.
func init() {
	register(api{key: 8, min: 2, max: 10, handle: offsetCommit})
}

// Versions of OffsetCommit that change something here.
const (
	commitNotFound = 9 // knows GROUP_ID_NOT_FOUND
	commitWithIDs  = 10
)

func offsetCommit(_ context.Context, r *request) (reply, error) {
	req, err := decode[kmsg.OffsetCommitRequest](r)
	if err != nil {
		return nil, err
	}
	s := r.conn.server
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	var commits []broker.OffsetCommit
	for i := range req.Topics {
		ask := &req.Topics[i]
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = ask.Topic, ask.TopicID
		info, terr := r.caller.findTopic(req.Version >= commitWithIDs, ask.Topic, ask.TopicID)
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
	done := make(chan error, 1)
	if key, err := r.caller.group(req.Group); err != nil {
		done <- err
	} else {
		ref := groups.MemberRef{ID: req.MemberID, Instance: orEmpty(req.InstanceID), Generation: req.Generation}
		s.broker.CommitOffsets(key, ref, commits, func(err error) { done <- err })
	}
	return func(ctx context.Context) response {
		if err := outcome(ctx, done); err != nil {
			code := codeOf(scopeGroup, err)
			if code == codeGroupIDNotFound && req.Version < commitNotFound {
				code = codeIllegalGeneration
			}
			failCommits(resp, code)
		}
		return response{bufs: [][]byte{resp.AppendTo(nil)}}
	}, nil
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

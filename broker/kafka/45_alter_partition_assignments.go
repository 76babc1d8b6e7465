package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// AlterPartitionReassignments (API 45): a region places its replicas itself.
// Where they are already is the only place that they can be sent to.
//
// Versions 0 and 1, both flexible; 1 says whether the number of replicas may
// change, which it cannot.
func init() {
	register(api{key: 45, min: 0, max: 1, handle: decodes(alterReassignments)})
}

func alterReassignments(_ context.Context, r *request, req *kmsg.AlterPartitionAssignmentsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	denied := r.caller.checkNode()
	for _, ask := range req.Topics {
		t := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		t.Topic = ask.Topic
		info, err := r.caller.findTopic(false, ask.Topic, [16]byte{})
		if denied != nil {
			err = denied
		}
		for i := range ask.Partitions {
			perr := err
			if perr == nil {
				perr = r.conn.server.reassign(info, &ask.Partitions[i])
			}
			p := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = ask.Partitions[i].Partition, codeOf(scopeRead, perr), text(perr)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func (s *Server) reassign(info *broker.TopicInfo, ask *kmsg.AlterPartitionAssignmentsRequestTopicPartition) error {
	switch {
	case ask.Partition < 0 || int(ask.Partition) >= len(info.Partitions):
		return withCode(codeUnknownTopicOrPartition, fmt.Sprintf("there is no partition %d", ask.Partition))
	case ask.Replicas == nil:
		return withCode(codeNoReassignmentInProgress, "No partition reassignment is in progress.")
	}
	return s.checkReplicas(ask.Replicas)
}

// checkReplicas checks where somebody wants the replicas of a partition to be.
func (s *Server) checkReplicas(nodes []int32) error {
	refuse := func(format string, args ...any) error {
		return withCode(codeInvalidReplicaAssignment, "The manual partition assignment includes "+fmt.Sprintf(format, args...))
	}
	if len(nodes) == 0 {
		return refuse("an empty replica list.")
	}
	for _, n := range nodes {
		if n != s.cfg.NodeID {
			return refuse("broker %d, but no such broker is registered.", n)
		}
	}
	if len(nodes) > replicas {
		return refuse("the broker %d more than once.", s.cfg.NodeID)
	}
	return nil
}

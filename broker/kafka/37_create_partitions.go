package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions (API 37): gives topics more partitions.
//
// Versions 0 to 3; 2 is flexible, 3 has an error of its own for quotas, of which
// there are none. New partitions get the next numbers.
func init() {
	register(api{key: 37, min: 0, max: 3, handle: decodes(createPartitions)})
}

func createPartitions(ctx context.Context, r *request, req *kmsg.CreatePartitionsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	names := counted(req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) string { return t.Topic })
	for i := range req.Topics {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = req.Topics[i].Topic
		err := error(nil)
		switch names.next(t.Topic) {
		case answered:
			continue
		case several:
			err = errDuplicateTopic
		default:
			err = r.conn.server.createPartitions(ctx, r.caller, &req.Topics[i], req.ValidateOnly)
		}
		t.ErrorCode, t.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func (s *Server) createPartitions(ctx context.Context, who *caller, ask *kmsg.CreatePartitionsRequestTopic, validate bool) error {
	info, err := who.findTopic(false, ask.Topic, [16]byte{})
	if err != nil {
		return err
	}
	have := int32(len(info.Partitions))
	switch {
	case ask.Count == have:
		return withCode(codeInvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", have))
	case ask.Count < have:
		return withCode(codeInvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", ask.Topic, have, ask.Count))
	case ask.Count > s.broker.MaxPartitions():
		return withCode(codeInvalidPartitions, fmt.Sprintf("%d partitions, at most %d", ask.Count, s.broker.MaxPartitions()))
	case ask.Assignment != nil && len(ask.Assignment) != int(ask.Count-have):
		return withCode(codeInvalidReplicaAssignment, fmt.Sprintf(
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", ask.Count-have, len(ask.Assignment)))
	}
	for _, a := range ask.Assignment {
		if err := s.checkReplicas(a.Replicas); err != nil {
			return err
		}
	}
	if validate {
		return s.broker.RoomFor(info.Topic, int(ask.Count-have))
	}
	return s.broker.GrowTopic(ctx, info, ask.Count)
}

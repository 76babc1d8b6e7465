package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DeleteTopics (API 20): deletes topics, in the mesh's eyes too: the deletion
// count grows.
//
// Versions 1 to 6:
//   - 4: flexible
//   - 5: error message
//   - 6: by id, too
func init() {
	register(api{key: 20, min: 1, max: 6, handle: decodes(deleteTopics)})
}

const deleteByID = 6

func deleteTopics(ctx context.Context, r *request, req *kmsg.DeleteTopicsRequest) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, adminWait(req.TimeoutMillis))
	defer cancel()
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	if req.Version < deleteByID {
		asked = nil
		for _, name := range req.TopicNames {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = ptr(name)
			asked = append(asked, t)
		}
	}
	names := counted(asked, deletionKey)
	for i := range asked {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = asked[i].Topic, asked[i].TopicID
		err := error(nil)
		switch names.next(deletionKey(&asked[i])) {
		case answered:
			continue
		case several:
			err = errDuplicateTopic
		default:
			err = r.caller.deleteTopic(ctx, &asked[i], &t)
		}
		t.ErrorCode, t.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// deletionKey is what a topic is asked for by: its name, or its id in a form that
// no name has.
func deletionKey(t *kmsg.DeleteTopicsRequestTopic) string {
	if t.Topic == nil {
		return string(t.TopicID[:]) + "/"
	}
	return *t.Topic
}

func (c *caller) deleteTopic(ctx context.Context, ask *kmsg.DeleteTopicsRequestTopic, out *kmsg.DeleteTopicsResponseTopic) error {
	var info *broker.TopicInfo
	var err error
	switch {
	case ask.Topic == nil && ask.TopicID == [16]byte{}:
		err = withCode(codeInvalidRequest, "Neither topic name nor id were specified.")
	case ask.Topic == nil:
		info, err = c.findTopic(true, "", ask.TopicID)
	case ask.TopicID != [16]byte{}:
		err = withCode(codeInvalidRequest, "You may not specify both topic name and topic id.")
	default:
		info, err = c.findTopic(false, *ask.Topic, [16]byte{})
	}
	if err != nil {
		return err
	}
	if out.Topic == nil {
		out.Topic = ptr(c.nameOf(info.Topic))
	}
	out.TopicID = info.ID
	return c.server.broker.DeleteTopic(ctx, *info)
}

package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// DeleteTopics (API 20): deletes topics, in the mesh's eyes too: the deletion
// count grows.
//
// Versions 1 to 6:
//   - 4: flexible
//   - 5: error message
//   - 6: by id, too
//
// The topics of a request are deleted at the same time. One that is named more than
// once is answered once, with an error, and nothing is done; one that is asked for by
// name and by id goes, and the later of the two is refused.
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
	found := map[rhumb.UUID]bool{}
	var errs []error
	var infos []broker.TopicInfo // of those without an error
	for i := range asked {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = asked[i].Topic, asked[i].TopicID
		info, err := broker.TopicInfo{}, error(nil)
		switch names.next(deletionKey(&asked[i])) {
		case answered:
			continue
		case several:
			err = errDuplicateTopic
		default:
			info, err = r.caller.topicToDelete(&asked[i], &t)
		}
		if err == nil {
			if found[info.ID] {
				err = errNamedByID
			}
			found[info.ID] = true
		}
		resp.Topics, errs, infos = append(resp.Topics, t), append(errs, err), append(infos, info)
	}
	together(len(errs), func(i int) {
		if errs[i] == nil {
			errs[i] = r.conn.server.deleteTopic(ctx, infos[i])
		}
		resp.Topics[i].ErrorCode, resp.Topics[i].ErrorMessage = codeOf(scopeAdmin, errs[i]), text(errs[i])
	})
	return resp, nil
}

var errNamedByID = withCode(codeInvalidRequest, "The provided topic name maps to an ID that was already supplied.")

// deleteTopic deletes a topic that was found. What has not begun when the request's time
// is over is not begun: its client was told that it failed.
func (s *Server) deleteTopic(ctx context.Context, info broker.TopicInfo) error {
	if ctx.Err() != nil {
		return rhumb.Errorf(rhumb.KindTimeout, "topic %s is not deleted: %w", info.Topic.Short(), context.Cause(ctx))
	}
	return s.broker.DeleteTopic(ctx, info)
}

// deletionKey is what a topic is asked for by: its name, or its id in a form that
// no name has.
func deletionKey(t *kmsg.DeleteTopicsRequestTopic) string {
	if t.Topic == nil {
		return string(t.TopicID[:]) + "/"
	}
	return *t.Topic
}

// topicToDelete finds what is asked for, and completes how the answer names it.
func (c *caller) topicToDelete(ask *kmsg.DeleteTopicsRequestTopic, out *kmsg.DeleteTopicsResponseTopic) (broker.TopicInfo, error) {
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
		return broker.TopicInfo{}, err
	}
	if out.Topic == nil {
		out.Topic = ptr(c.nameOf(info.Topic))
	}
	out.TopicID = info.ID
	return *info, nil
}

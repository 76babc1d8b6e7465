package kafka

import (
	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// parseTopic reads a topic's name as Kafka clients write it: bare names are of
// public/default.
func parseTopic(name string) (rhumb.Topic, error) {
	t, err := rhumb.ParseTopic(name)
	if err != nil {
		return t, withCode(codeInvalidTopic, err.Error())
	}
	return t, nil
}

// findTopic finds a topic by its id if the version carries ids, else by name.
func (s *Server) findTopic(byID bool, name string, id [16]byte) (*broker.TopicInfo, error) {
	if byID {
		if info, ok := s.broker.TopicByID(id); ok {
			return &info, nil
		}
		return nil, errTopicID
	}
	t, err := parseTopic(name)
	if err != nil {
		return nil, err
	}
	info, ok := s.broker.Topic(t)
	if !ok {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "topic %q does not exist", name)
	}
	return &info, nil
}

// group makes the key of a group as this connection sees it.
func group(name string) (broker.GroupKey, error) {
	key, err := broker.Group(rhumb.DefaultTenant, rhumb.DefaultNamespace, name)
	if err != nil {
		return key, withCode(codeInvalidGroupID, err.Error())
	}
	return key, nil
}

// ptr gives a pointer to a copy, which optional strings of the codec want.
func ptr[T any](v T) *T { return &v }

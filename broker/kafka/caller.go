package kafka

import (
	"fmt"
	"slices"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// caller is whom a request comes from and what it may see. It is made anew for
// each request, so that a grant which was given or taken counts at once, and
// does not change afterwards.
//
// Handlers reach topics and groups through it and never past it.
type caller struct {
	server *Server
	name   rhumb.UserName // "" for who did not have to say
	home   rhumb.Space    // of bare names; zero: the caller has no namespace
	grants []rhumb.Space  // beside home
	all    bool           // every namespace
	admin  bool           // may change users and nodes

	version uint64 // of the user's document
}

// anonymous is the caller on a listener that asks nobody who he is. Without a
// namespace of its own, the listener is for who may do everything but change
// users.
func (s *Server) anonymous(home rhumb.Space) *caller {
	if home.IsZero() {
		return &caller{server: s, home: rhumb.DefaultSpace, all: true}
	}
	return &caller{server: s, home: home}
}

// sees reports whether the caller may work in a namespace.
func (c *caller) sees(s rhumb.Space) bool {
	return c.all || !c.home.IsZero() && c.home == s || slices.Contains(c.grants, s)
}

// owner is what keeps fetch sessions of callers apart.
type owner struct {
	name rhumb.UserName
	home rhumb.Space
}

func (c *caller) owner() owner { return owner{c.name, c.home} }

// String names the caller in errors.
func (c *caller) String() string {
	if c.name == "" {
		return "anonymous"
	}
	return "user " + string(c.name)
}

// parseTopic reads a topic's name as the caller writes it: bare names are of its
// own namespace.
func (c *caller) parseTopic(name string) (rhumb.Topic, error) {
	t, err := c.home.ParseTopic(name)
	if err != nil {
		return t, withCode(codeInvalidTopic, nameFault(name, err))
	}
	if !c.sees(t.Space()) {
		return t, withCode(codeTopicAuthorizationFailed, fmt.Sprintf("%v has no grant for the namespace of topic %q", c, name))
	}
	return t, nil
}

// nameOf gives a topic's name as the caller writes it.
func (c *caller) nameOf(t rhumb.Topic) string { return c.home.NameOf(t) }

// topics gives the topics of the caller's own namespace, which is all that
// clients list: others are reached by their full names.
func (c *caller) topics() []broker.TopicInfo {
	return slices.DeleteFunc(c.server.broker.Topics(), func(t broker.TopicInfo) bool { return t.Topic.Space() != c.home })
}

// topicByID finds a topic by its id, unless it is in a namespace that the caller
// does not see.
func (c *caller) topicByID(id [16]byte) (*broker.TopicInfo, bool) {
	info, ok := c.server.broker.TopicByID(id)
	if !ok || !c.sees(info.Topic.Space()) {
		return nil, false
	}
	return &info, true
}

// findTopic finds a topic by its id if the version carries ids, else by name.
func (c *caller) findTopic(byID bool, name string, id [16]byte) (*broker.TopicInfo, error) {
	if byID {
		if info, ok := c.topicByID(id); ok {
			return info, nil
		}
		return nil, errTopicID
	}
	t, err := c.parseTopic(name)
	if err != nil {
		return nil, err
	}
	info, ok := c.server.broker.Topic(t)
	if !ok {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "topic %q does not exist", name)
	}
	return &info, nil
}

// group makes the key of a group as the caller sees it.
func (c *caller) group(name string) (broker.GroupKey, error) {
	if c.home.IsZero() {
		return broker.GroupKey{}, withCode(codeGroupAuthorizationFailed, fmt.Sprintf("%v has no namespace", c))
	}
	key, err := broker.Group(c.home.Tenant, c.home.Namespace, name)
	if err != nil {
		return key, withCode(codeInvalidGroupID, err.Error())
	}
	return key, nil
}

// checkUsers refuses who may not see and change users: that takes an
// administrator who has logged in.
func (c *caller) checkUsers() error {
	if c.admin {
		return nil
	}
	return withCode(codeClusterAuthorizationFailed, fmt.Sprintf("%v is no administrator", c))
}

// checkNode refuses who may not change what belongs to the whole node: on a
// listener that knows its callers that takes an administrator.
func (c *caller) checkNode() error {
	if c.admin || c.all {
		return nil
	}
	return withCode(codeClusterAuthorizationFailed, fmt.Sprintf("%v is no administrator", c))
}

package groups

import (
	"errors"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// What a group answers that no kind stands for. A protocol has a code for each.
var (
	// ErrUnknownMember: the group has no such member; it joins anew.
	ErrUnknownMember = errors.New("the group has no such member")
	// ErrGeneration: the member speaks for a generation that is not the group's.
	ErrGeneration = errors.New("the group has another generation")
	// ErrRebalancing: the members are being gathered; join again.
	ErrRebalancing = errors.New("the group is rebalancing")
	// ErrProtocol: the member shares no protocol with all others.
	ErrProtocol = errors.New("the group has no protocol in common with the member")
	// ErrFencedInstance: another process came with the same instance id (KIP-345).
	ErrFencedInstance = errors.New("another member has taken over this instance id")
	// ErrMemberID: the answer holds a member id; join again with it (KIP-394).
	ErrMemberID = errors.New("join again with the member id that was given")
	// ErrFull: a limit of the group is reached.
	ErrFull = errors.New("the group is at its limit")
	// ErrOffsetsFull: a limit of committed positions is reached. Those that are there
	// can still be moved.
	ErrOffsetsFull = errors.New("committed offsets are at their limit")
	// ErrSessionTimeout: the session timeout lies outside of what is allowed.
	ErrSessionTimeout = errors.New("the session timeout is outside of what the server allows")
	// ErrNotEmpty: the group has members.
	ErrNotEmpty = errors.New("the group has members")
	// ErrSubscribed: members of the group are subscribed to the topic.
	ErrSubscribed = errors.New("the group is subscribed to the topic")
)

func errNotFound(k Key) error {
	return rhumb.Errorf(rhumb.KindNotFound, "group %s not found", k.Group)
}

func errElsewhere(k Key) error {
	return rhumb.Errorf(rhumb.KindNotLeader, "group %s is not coordinated by this node", k.Group)
}

func errClosed() error { return rhumb.Errorf(rhumb.KindNotLeader, "the node is stopping") }

func errNoMemory(k Key) error {
	return rhumb.Errorf(rhumb.KindUnavailable, "group %s: the node's memory for groups is used up", k.Group)
}

package kafka

import (
	"context"
	"errors"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// Codes of Kafka that are answered.
// https://kafka.apache.org/protocol.html#protocol_error_codes
const (
	codeNone                       int16 = 0
	codeUnknownServerError         int16 = -1
	codeOffsetOutOfRange           int16 = 1
	codeCorruptMessage             int16 = 2
	codeUnknownTopicOrPartition    int16 = 3
	codeLeaderNotAvailable         int16 = 5
	codeNotLeaderOrFollower        int16 = 6
	codeRequestTimedOut            int16 = 7
	codeMessageTooLarge            int16 = 10
	codeOffsetMetadataTooLarge     int16 = 12
	codeCoordinatorNotAvailable    int16 = 15
	codeNotCoordinator             int16 = 16
	codeInvalidTopic               int16 = 17
	codeInvalidTimestamp           int16 = 32
	codeInvalidRequiredAcks        int16 = 21
	codeIllegalGeneration          int16 = 22
	codeInconsistentProtocol       int16 = 23
	codeInvalidGroupID             int16 = 24
	codeUnknownMemberID            int16 = 25
	codeInvalidSessionTimeout      int16 = 26
	codeInvalidCommitOffsetSize    int16 = 28
	codeRebalanceInProgress        int16 = 27
	codeTopicAuthorizationFailed   int16 = 29
	codeGroupAuthorizationFailed   int16 = 30
	codeClusterAuthorizationFailed int16 = 31
	codeUnsupportedSaslMechanism   int16 = 33
	codeIllegalSaslState           int16 = 34
	codeUnsupportedVersion         int16 = 35
	codeTopicAlreadyExists         int16 = 36
	codeInvalidPartitions          int16 = 37
	codeInvalidReplicationFactor   int16 = 38
	codeInvalidReplicaAssignment   int16 = 39
	codeInvalidConfig              int16 = 40
	codeNotController              int16 = 41
	codeInvalidRequest             int16 = 42
	codeUnsupportedForFormat       int16 = 43
	codePolicyViolation            int16 = 44
	codeOutOfOrderSequence         int16 = 45
	codeInvalidProducerEpoch       int16 = 47
	codeTransactionalIDAuthFailed  int16 = 53
	codeStorageError               int16 = 56
	codeSaslAuthenticationFailed   int16 = 58
	codeUnknownProducerID          int16 = 59
	codeNonEmptyGroup              int16 = 68
	codeGroupIDNotFound            int16 = 69
	codeFetchSessionNotFound       int16 = 70
	codeInvalidFetchSessionEpoch   int16 = 71
	codeFencedLeaderEpoch          int16 = 74
	codeUnknownLeaderEpoch         int16 = 75
	codeUnsupportedCompressionType int16 = 76
	codeMemberIDRequired           int16 = 79
	codeGroupMaxSizeReached        int16 = 81
	codeFencedInstanceID           int16 = 82
	codeGroupSubscribedToTopic     int16 = 86
	codeElectionNotNeeded          int16 = 84
	codeNoReassignmentInProgress   int16 = 85
	codeInvalidRecord              int16 = 87
	codeResourceNotFound           int16 = 91
	codeDuplicateResource          int16 = 92
	codeUnacceptableCredential     int16 = 93
	codeUnknownTopicID             int16 = 100
	codeFetchSessionTopicIDError   int16 = 106
	codeMismatchedEndpointType     int16 = 114
	codeUnsupportedEndpointType    int16 = 115
)

// scope is what a request is about: it decides what a kind of error means.
type scope uint8

const (
	scopeProduce scope = iota
	scopeRead
	scopeGroup
	scopeAdmin
	scopes
)

// byKind gives the code of each kind, in the order of the scopes.
//
// Retriable kinds have retriable codes. A write that finds no space gets the
// storage error, which clients retry after a look at the metadata. A message of
// magic 0 or 1 is an invalid record, as Kafka 4 says since it dropped those (KIP-724), and
// one of a magic that never was is corrupt.
var byKind = map[rhumb.Kind][scopes]int16{
	rhumb.KindInternal:        {codeUnknownServerError, codeUnknownServerError, codeUnknownServerError, codeUnknownServerError},
	rhumb.KindInvalid:         {codeInvalidRecord, codeInvalidRequest, codeInvalidRequest, codeInvalidRequest},
	rhumb.KindNotFound:        {codeUnknownTopicOrPartition, codeUnknownTopicOrPartition, codeGroupIDNotFound, codeUnknownTopicOrPartition},
	rhumb.KindExists:          {codeUnknownServerError, codeUnknownServerError, codeUnknownServerError, codeTopicAlreadyExists},
	rhumb.KindNotLeader:       {codeNotLeaderOrFollower, codeNotLeaderOrFollower, codeNotCoordinator, codeNotController},
	rhumb.KindFenced:          {codeInvalidProducerEpoch, codeFencedLeaderEpoch, codeIllegalGeneration, codeInvalidRequest},
	rhumb.KindOutOfOrder:      {codeOutOfOrderSequence, codeUnknownServerError, codeUnknownServerError, codeUnknownServerError},
	rhumb.KindMissing:         {codeNotLeaderOrFollower, codeNotLeaderOrFollower, codeCoordinatorNotAvailable, codeRequestTimedOut},
	rhumb.KindDiverged:        {codeUnknownServerError, codeUnknownServerError, codeUnknownServerError, codeUnknownServerError},
	rhumb.KindOutOfRange:      {codeInvalidRecord, codeOffsetOutOfRange, codeInvalidRequest, codeOffsetOutOfRange},
	rhumb.KindTooLarge:        {codeMessageTooLarge, codeMessageTooLarge, codeOffsetMetadataTooLarge, codeInvalidRequest},
	rhumb.KindCorrupt:         {codeCorruptMessage, codeCorruptMessage, codeUnknownServerError, codeUnknownServerError},
	rhumb.KindUnavailable:     {codeNotLeaderOrFollower, codeNotLeaderOrFollower, codeCoordinatorNotAvailable, codeRequestTimedOut},
	rhumb.KindNoSpace:         {codeStorageError, codeStorageError, codeCoordinatorNotAvailable, codeRequestTimedOut},
	rhumb.KindForbidden:       {codeTopicAuthorizationFailed, codeTopicAuthorizationFailed, codeGroupAuthorizationFailed, codePolicyViolation},
	rhumb.KindTimeout:         {codeRequestTimedOut, codeRequestTimedOut, codeRequestTimedOut, codeRequestTimedOut},
	rhumb.KindUnsupported:     {codeUnsupportedForFormat, codeUnsupportedVersion, codeUnsupportedVersion, codeUnsupportedVersion},
	rhumb.KindUnknownProducer: {codeUnknownProducerID, codeUnknownServerError, codeUnknownServerError, codeUnknownServerError},
}

// ofGroups gives the codes of what package groups answers.
var ofGroups = []struct {
	err  error
	code int16
}{
	{groups.ErrUnknownMember, codeUnknownMemberID},
	{groups.ErrGeneration, codeIllegalGeneration},
	{groups.ErrRebalancing, codeRebalanceInProgress},
	{groups.ErrProtocol, codeInconsistentProtocol},
	{groups.ErrFencedInstance, codeFencedInstanceID},
	{groups.ErrMemberID, codeMemberIDRequired},
	{groups.ErrFull, codeGroupMaxSizeReached},
	{groups.ErrOffsetsFull, codeInvalidCommitOffsetSize},
	{groups.ErrSessionTimeout, codeInvalidSessionTimeout},
	{groups.ErrNotEmpty, codeNonEmptyGroup},
	{groups.ErrSubscribed, codeGroupSubscribedToTopic},
}

// codeError is an error of the protocol itself, which no kind stands for.
type codeError struct {
	code int16
	text string
}

func (e *codeError) Error() string { return e.text }

func withCode(code int16, text string) error { return &codeError{code, text} }

var (
	errTransactional = withCode(codeTransactionalIDAuthFailed, "transactions are not offered")
	errTopicID       = withCode(codeUnknownTopicID, "no topic has this id")
)

// codeOf is the only place where errors become codes.
func codeOf(in scope, err error) int16 {
	var own *codeError
	switch {
	case err == nil:
		return codeNone
	case errors.As(err, &own):
		return own.code
	case errors.Is(err, broker.ErrTimestamp):
		return codeInvalidTimestamp
	case errors.Is(err, broker.ErrInternalTopic) && in != scopeAdmin:
		return codeInvalidTopic
	case errors.Is(err, region.ErrPartitionLimit), errors.Is(err, broker.ErrNamespaceLimit), errors.Is(err, broker.ErrStandby), errors.Is(err, broker.ErrShut):
		// None is a question of who asks. Of a policy violation clients show the
		// message, and give the record back at once; with an authorization error Java's
		// would say only that it has no rights.
		return codePolicyViolation
	case errors.Is(err, broker.ErrNewerEpoch):
		return codeUnknownLeaderEpoch
	case errors.Is(err, context.DeadlineExceeded):
		return codeRequestTimedOut
	}
	for _, g := range ofGroups {
		if errors.Is(err, g.err) {
			return g.code
		}
	}
	if codes, ok := byKind[rhumb.KindOf(err)]; ok {
		return codes[in]
	}
	return codeUnknownServerError
}

// text is the message that goes with a code, nil without an error.
func text(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

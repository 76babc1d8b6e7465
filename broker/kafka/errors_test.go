package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Every kind has a code in every scope, and clients retry exactly the retriable
// kinds. A kind that is added without a line in the table fails here.
func TestEveryKindHasACode(t *testing.T) {
	kinds := 0
	for k := rhumb.Kind(0); !strings.HasPrefix(k.String(), "kind-"); k++ {
		kinds++
		codes, ok := byKind[k]
		if !ok {
			t.Errorf("kind %v has no codes", k)
			continue
		}
		for in := range scopes {
			err := fmt.Errorf("wrapped: %w", rhumb.Errorf(k, "x"))
			code := codeOf(in, err)
			if code != codes[in] || code == codeNone {
				t.Errorf("kind %v in scope %d: code %d", k, in, code)
			}
			if k.Retriable() && !kerr.IsRetriable(kerr.ErrorForCode(code)) {
				t.Errorf("kind %v in scope %d is retriable, code %d is not", k, in, code)
			}
			if !k.Retriable() && code != codeUnknownServerError && retried(code) {
				t.Errorf("kind %v in scope %d is not retriable, code %d is", k, in, code)
			}
		}
	}
	if kinds != len(byKind) {
		t.Errorf("%d kinds, %d in the table", kinds, len(byKind))
	}
}

// retried leaves out codes that clients retry after they have looked for the
// reason themselves: a topic that is not there (yet), a batch that was damaged
// on its way, an epoch that is over.
func retried(code int16) bool {
	switch code {
	case codeUnknownTopicOrPartition, codeCorruptMessage, codeFencedLeaderEpoch:
		return false
	}
	return kerr.IsRetriable(kerr.ErrorForCode(code))
}

func TestCodesOfTheProtocolItself(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int16
	}{
		{nil, codeNone},
		{errors.New("x"), codeUnknownServerError},
		{fmt.Errorf("x: %w", errTopicID), codeUnknownTopicID},
		{broker.CheckEpoch(broker.PartitionState{LeaderEpoch: 1}, 2), codeUnknownLeaderEpoch},
		{broker.CheckEpoch(broker.PartitionState{LeaderEpoch: 1}, 0), codeFencedLeaderEpoch},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), codeRequestTimedOut},
		{rhumb.Errorf(rhumb.Kind(200), "newer"), codeUnknownServerError},
	} {
		if got := codeOf(scopeRead, tc.err); got != tc.code {
			t.Errorf("%v: code %d, want %d", tc.err, got, tc.code)
		}
	}
}

// The numbers are those of the protocol.
func TestCodesHaveTheirNames(t *testing.T) {
	for code, want := range map[int16]*kerr.Error{
		codeOffsetOutOfRange: kerr.OffsetOutOfRange, codeCorruptMessage: kerr.CorruptMessage, codeMessageTooLarge: kerr.MessageTooLarge,
		codeUnknownTopicOrPartition: kerr.UnknownTopicOrPartition, codeLeaderNotAvailable: kerr.LeaderNotAvailable,
		codeNotLeaderOrFollower: kerr.NotLeaderForPartition, codeRequestTimedOut: kerr.RequestTimedOut,
		codeOffsetMetadataTooLarge: kerr.OffsetMetadataTooLarge, codeCoordinatorNotAvailable: kerr.CoordinatorNotAvailable,
		codeNotCoordinator: kerr.NotCoordinator, codeInvalidTopic: kerr.InvalidTopicException, codeInvalidRequiredAcks: kerr.InvalidRequiredAcks,
		codeIllegalGeneration: kerr.IllegalGeneration, codeInvalidGroupID: kerr.InvalidGroupID, codeUnknownMemberID: kerr.UnknownMemberID,
		codeTopicAuthorizationFailed: kerr.TopicAuthorizationFailed, codeGroupAuthorizationFailed: kerr.GroupAuthorizationFailed,
		codeUnsupportedVersion: kerr.UnsupportedVersion, codeTopicAlreadyExists: kerr.TopicAlreadyExists, codeInvalidPartitions: kerr.InvalidPartitions,
		codeInvalidReplicationFactor: kerr.InvalidReplicationFactor, codeInvalidReplicaAssignment: kerr.InvalidReplicaAssignment,
		codeInvalidConfig: kerr.InvalidConfig, codeNotController: kerr.NotController, codeInvalidRequest: kerr.InvalidRequest,
		codeUnsupportedForFormat: kerr.UnsupportedForMessageFormat, codePolicyViolation: kerr.PolicyViolation,
		codeOutOfOrderSequence: kerr.OutOfOrderSequenceNumber, codeInvalidProducerEpoch: kerr.InvalidProducerEpoch,
		codeTransactionalIDAuthFailed: kerr.TransactionalIDAuthorizationFailed, codeStorageError: kerr.KafkaStorageError,
		codeUnknownProducerID: kerr.UnknownProducerID, codeGroupIDNotFound: kerr.GroupIDNotFound, codeFetchSessionNotFound: kerr.FetchSessionIDNotFound,
		codeInvalidFetchSessionEpoch: kerr.InvalidFetchSessionEpoch, codeFencedLeaderEpoch: kerr.FencedLeaderEpoch,
		codeUnknownLeaderEpoch: kerr.UnknownLeaderEpoch, codeUnsupportedCompressionType: kerr.UnsupportedCompressionType,
		codeInvalidRecord: kerr.InvalidRecord, codeUnknownTopicID: kerr.UnknownTopicID, codeFetchSessionTopicIDError: kerr.FetchSessionTopicIDError,
		codeInconsistentProtocol: kerr.InconsistentGroupProtocol, codeInvalidSessionTimeout: kerr.InvalidSessionTimeout,
		codeInvalidCommitOffsetSize: kerr.InvalidCommitOffsetSize,
		codeRebalanceInProgress:     kerr.RebalanceInProgress, codeNonEmptyGroup: kerr.NonEmptyGroup, codeMemberIDRequired: kerr.MemberIDRequired,
		codeGroupMaxSizeReached: kerr.GroupMaxSizeReached, codeFencedInstanceID: kerr.FencedInstanceID,
		codeGroupSubscribedToTopic:  kerr.GroupSubscribedToTopic,
		codeUnsupportedEndpointType: kerr.UnsupportedEndpointType, codeMismatchedEndpointType: kerr.MismatchedEndpointType, codeUnknownServerError: kerr.UnknownServerError,
	} {
		if want.Code != code {
			t.Errorf("%s is %d, not %d", want.Message, want.Code, code)
		}
	}
}

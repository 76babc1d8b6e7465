package kafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ElectLeaders (API 43): a region elects its leaders itself, so there is nothing
// to do for a partition that is there.
//
// Versions 0 to 2:
//   - 1: kind of election, top-level error
//   - 2: flexible
func init() {
	register(api{key: 43, min: 0, max: 2, handle: decodes(electLeaders)})
}

// uncleanElection is the higher of the two kinds of election.
const uncleanElection = 1

func electLeaders(_ context.Context, r *request, req *kmsg.ElectLeadersRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	kind := req.ElectionType
	if kind < 0 || kind > uncleanElection {
		resp.ErrorCode = codeInvalidRequest
	}
	for _, ask := range req.Topics {
		t := kmsg.NewElectLeadersResponseTopic()
		t.Topic = ask.Topic
		info, err := r.caller.findTopic(false, ask.Topic, [16]byte{})
		for _, index := range ask.Partitions {
			perr := err
			switch {
			case resp.ErrorCode != 0:
				perr = withCode(codeInvalidRequest, fmt.Sprintf("Unknown election type %d", kind))
			case err == nil && (index < 0 || int(index) >= len(info.Partitions)):
				perr = withCode(codeUnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", ask.Topic, index))
			case err == nil:
				perr = withCode(codeElectionNotNeeded, "Leader election not needed for topic partition.")
			}
			p := kmsg.NewElectLeadersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = index, codeOf(scopeRead, perr), text(perr)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

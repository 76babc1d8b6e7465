package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// fillAdmin gives administrative requests some content that is refused or
// changes nothing, so that every field of their answers is written.
func fillAdmin(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		r.ValidateOnly = true
		r.Topics = append(r.Topics, newTopic("filled", 1), newTopic("t", 1))
		r.Topics[0].ReplicationFactor, r.Topics[1].ReplicationFactor = 1, 1
	case *kmsg.DeleteTopicsRequest:
		r.TopicNames = []string{"absent"}
		absent := kmsg.NewDeleteTopicsRequestTopic()
		absent.Topic = ptr("absent")
		r.Topics = append(r.Topics, absent)
	case *kmsg.DeleteRecordsRequest:
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = "t"
		t.Partitions = append(t.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.OffsetForLeaderEpochRequest:
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = "t"
		t.Partitions = append(t.Partitions, kmsg.NewOffsetForLeaderEpochRequestTopicPartition())
		r.Topics = append(r.Topics, t)
	case *kmsg.ListOffsetsRequest:
		v := r.Version
		*r = *listRequest("t", v, -1, -2, 0)
	case *kmsg.DescribeConfigsRequest:
		r.IncludeSynonyms, r.IncludeDocumentation = true, true
		for kind, name := range map[kmsg.ConfigResourceType]string{ofTopic: "t", ofBroker: "1001", kmsg.ConfigResourceTypeBrokerLogger: "1001"} {
			one := kmsg.NewDescribeConfigsRequestResource()
			one.ResourceType, one.ResourceName = kind, name
			r.Resources = append(r.Resources, one)
		}
	case *kmsg.AlterConfigsRequest:
		r.ValidateOnly = true
		one := kmsg.NewAlterConfigsRequestResource()
		one.ResourceType, one.ResourceName = ofTopic, "t"
		r.Resources = append(r.Resources, one)
	case *kmsg.IncrementalAlterConfigsRequest:
		r.ValidateOnly = true
		one := kmsg.NewIncrementalAlterConfigsRequestResource()
		one.ResourceType, one.ResourceName = ofTopic, "absent"
		r.Resources = append(r.Resources, one)
	case *kmsg.CreatePartitionsRequest:
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = "t", 1
		r.ValidateOnly, r.Topics = true, append(r.Topics, one)
	case *kmsg.ElectLeadersRequest:
		one := kmsg.NewElectLeadersRequestTopic()
		one.Topic, one.Partitions = "t", []int32{0, 5}
		r.Topics = append(r.Topics, one)
	case *kmsg.AlterPartitionAssignmentsRequest:
		one := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		one.Topic, one.Partitions = "t", append(one.Partitions, kmsg.NewAlterPartitionAssignmentsRequestTopicPartition())
		r.Topics = append(r.Topics, one)
	case *kmsg.DescribeProducersRequest:
		one := kmsg.NewDescribeProducersRequestTopic()
		one.Topic, one.Partitions = "t", []int32{0, 5}
		r.Topics = append(r.Topics, one)
	case *kmsg.DescribeTopicPartitionsRequest:
		r.ResponsePartitionLimit = 1
	case *kmsg.DescribeLogDirsRequest:
		r.Topics = nil
	}
}

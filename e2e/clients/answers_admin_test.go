package clients

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func asksMetadata(name string, from int16, topics func(w *world) []kmsg.MetadataRequestTopic) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = topics(w)
		req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
		return req
	}}
}

func byName(names ...string) func(*world) []kmsg.MetadataRequestTopic {
	return func(w *world) (out []kmsg.MetadataRequestTopic) {
		w.data()
		for _, n := range names {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = &n
			out = append(out, t)
		}
		return out
	}
}

func byID(id func(w *world) [16]byte) func(*world) []kmsg.MetadataRequestTopic {
	return func(w *world) []kmsg.MetadataRequestTopic {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id(w)
		return []kmsg.MetadataRequestTopic{t}
	}
}

var describing = []probe{
	asksMetadata("of a topic", 0, byName("data")), asksMetadata("of no topic", 1, func(*world) []kmsg.MetadataRequestTopic { return []kmsg.MetadataRequestTopic{} }),
	asksMetadata("of an unknown topic", 4, byName("nowhere")), asksMetadata("of a name that is none", 0, byName("no name!")),
	asksMetadata("of the same topic twice", 0, byName("data", "data")),
	asksMetadata("of a topic by id", 12, byID(func(w *world) [16]byte { return w.id(w.data()) })),
	asksMetadata("of an unknown id", 12, byID(func(*world) [16]byte { return stranger })),
}

var versions = []probe{{"in a version that no server has", 3, func(*world, int16) kmsg.Request { return futureVersions{kmsg.NewPtrApiVersionsRequest()} }}}

// futureVersions is sent with a version that no server has, and answered in version 0.
type futureVersions struct{ *kmsg.ApiVersionsRequest }

func (f futureVersions) GetVersion() int16 { return 99 }
func (f futureVersions) ResponseKind() kmsg.Response {
	return &onlyError{ApiVersionsResponse: kmsg.ApiVersionsResponse{}}
}

// onlyError leaves out what a server offers: docs/compat-kafka.md tells of it.
type onlyError struct{ kmsg.ApiVersionsResponse }

func (o *onlyError) ReadFrom(b []byte) error {
	err := o.ApiVersionsResponse.ReadFrom(b)
	o.ApiKeys = nil
	return err
}

// creates makes a probe that creates a topic of its own.
func creates(name string, from int16, change func(*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsRequestTopic)) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 30_000
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = numbered("created", v)+"-"+dotted(name), 2, 1
		req.Topics = append(req.Topics, t)
		change(req, &req.Topics[0])
		return req
	}}
}

type (
	createRequest = *kmsg.CreateTopicsRequest
	createTopic   = *kmsg.CreateTopicsRequestTopic
)

func setting(t createTopic, name, value string) {
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = name, &value
	t.Configs = append(t.Configs, c)
}

func assign(t createTopic, nodes ...int32) {
	t.NumPartitions, t.ReplicationFactor = -1, -1
	for i, n := range nodes {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), []int32{n}
		t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	}
}

var creating = []probe{
	creates("with two partitions", 0, func(createRequest, createTopic) {}),
	creates("with settings", 0, func(_ createRequest, t createTopic) {
		setting(t, "retention.ms", "1000")
		setting(t, "cleanup.policy", "compact")
	}),
	creates("with the server's numbers", 4, func(_ createRequest, t createTopic) { t.NumPartitions, t.ReplicationFactor = -1, -1 }),
	creates("that is there", 0, func(_ createRequest, t createTopic) { t.Topic = "data" }),
	creates("for validation", 0, func(r createRequest, _ createTopic) { r.ValidateOnly = true }),
	creates("that is there for validation", 0, func(r createRequest, t createTopic) { r.ValidateOnly, t.Topic = true, "data" }),
	creates("without partitions", 0, func(_ createRequest, t createTopic) { t.NumPartitions = 0 }),
	creates("with -2 partitions", 0, func(_ createRequest, t createTopic) { t.NumPartitions = -2 }),
	creates("with no replica", 0, func(_ createRequest, t createTopic) { t.ReplicationFactor = 0 }),
	creates("with three replicas", 0, func(_ createRequest, t createTopic) { t.ReplicationFactor = 3 }),
	creates("with a name that is none", 0, func(_ createRequest, t createTopic) { t.Topic = "no name!" }),
	creates("without a name", 0, func(_ createRequest, t createTopic) { t.Topic = "" }),
	creates("with an unknown setting", 0, func(_ createRequest, t createTopic) { setting(t, "no.such.setting", "1") }),
	creates("with a setting that does not fit", 0, func(_ createRequest, t createTopic) { setting(t, "retention.ms", "soon") }),
	creates("with a null setting", 0, func(_ createRequest, t createTopic) { setting(t, "retention.ms", ""); t.Configs[0].Value = nil }),
	creates("on this node", 0, func(_ createRequest, t createTopic) { assign(t, 1000, 1000) }),
	creates("on another node", 0, func(_ createRequest, t createTopic) { assign(t, 77) }),
	creates("on nodes and with a number", 0, func(_ createRequest, t createTopic) { assign(t, 1000); t.NumPartitions = 1 }),
	creates("twice in a request", 0, func(r createRequest, t createTopic) { r.Topics = append(r.Topics, *t) }),
}

func deletes(name string, from int16, topic string, change func(w *world, t *kmsg.DeleteTopicsRequestTopic)) probe {
	return probe{name, from, func(w *world, v int16) kmsg.Request {
		topic := topic
		if topic == "" {
			topic = w.topic(numbered("deleted", v)+"-"+dotted(name), 1)
		}
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TimeoutMillis, req.TopicNames = 30_000, []string{topic}
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &topic
		change(w, &t)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

var deleting = []probe{
	deletes("by name", 0, "", func(*world, *kmsg.DeleteTopicsRequestTopic) {}),
	deletes("by id", 6, "", func(w *world, t *kmsg.DeleteTopicsRequestTopic) { t.TopicID, t.Topic = w.id(*t.Topic), nil }),
	deletes("by name and id", 6, "", func(w *world, t *kmsg.DeleteTopicsRequestTopic) { t.TopicID = w.id(*t.Topic) }),
	deletes("by neither", 6, "nowhere", func(_ *world, t *kmsg.DeleteTopicsRequestTopic) { t.Topic = nil }),
	deletes("that is not there", 0, "nowhere", func(*world, *kmsg.DeleteTopicsRequestTopic) {}),
	deletes("with an unknown id", 6, "nowhere", func(_ *world, t *kmsg.DeleteTopicsRequestTopic) { t.TopicID, t.Topic = stranger, nil }),
}

const ofTopic, ofBroker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker

func describesConfigs(name string, kind kmsg.ConfigResourceType, resource string, keys ...string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.topic("configured", 1, "retention.ms", "3600000")
		req := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName, r.ConfigNames = kind, resource, keys
		req.Resources, req.IncludeSynonyms = append(req.Resources, r), true
		return req
	}}
}

var configs = []probe{
	describesConfigs("of a topic", ofTopic, "configured"), describesConfigs("of a topic, two of them", ofTopic, "configured", "retention.ms", "cleanup.policy"),
	describesConfigs("of a topic, an unknown one", ofTopic, "configured", "no.such.setting"), describesConfigs("of an unknown topic", ofTopic, "nowhere"),
	describesConfigs("of a topic without a name", ofTopic, ""), describesConfigs("of an unknown node", ofBroker, "77"),
	describesConfigs("of a node that is no number", ofBroker, "first"), describesConfigs("of an unknown kind", 99, "configured"),
}

func alters(name, resource string, validate bool, pairs ...string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.topic("altered", 1)
		req := kmsg.NewPtrAlterConfigsRequest()
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = ofTopic, resource
		for i := 0; i < len(pairs); i += 2 {
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = pairs[i], &pairs[i+1]
			r.Configs = append(r.Configs, c)
		}
		req.Resources, req.ValidateOnly = append(req.Resources, r), validate
		return req
	}}
}

var altering = []probe{
	alters("of a topic", "altered", false, "retention.ms", "1000"), alters("to the defaults", "altered", false),
	alters("for validation", "altered", true, "retention.ms", "1000"), alters("of an unknown topic", "nowhere", false, "retention.ms", "1000"),
	alters("to an unknown one", "altered", false, "no.such.setting", "1"), alters("that does not fit", "altered", false, "retention.ms", "soon"),
}

func adjusts(name, resource string, op kmsg.IncrementalAlterConfigOp, key string, values ...string) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.topic("altered", 1)
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = ofTopic, resource
		if len(values) == 0 {
			values = []string{""}
		}
		for _, value := range values {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Op = key, op
			if value != "" {
				c.Value = &value
			}
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		return req
	}}
}

const (
	set, reset, add, take = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend,
		kmsg.IncrementalAlterConfigOpSubtract
)

var adjusting = []probe{
	adjusts("sets", "altered", set, "retention.ms", "1000"), adjusts("resets", "altered", reset, "retention.ms"),
	adjusts("resets what is not set", "altered", reset, "retention.ms"), adjusts("sets to null", "altered", set, "retention.ms"),
	adjusts("adds to a list", "altered", add, "cleanup.policy", "compact"), adjusts("takes from a list", "altered", take, "cleanup.policy", "compact"),
	adjusts("adds to a number", "altered", add, "retention.ms", "1"), adjusts("does something unknown", "altered", 9, "retention.ms", "1"),
	adjusts("sets one twice", "altered", set, "retention.ms", "1", "2"), adjusts("sets an unknown one", "altered", set, "no.such.setting", "1"),
	adjusts("sets what does not fit", "altered", set, "retention.ms", "soon"), adjusts("of an unknown topic", "nowhere", set, "retention.ms", "1"),
}

var folders = []probe{
	{"of a partition", 0, func(w *world, v int16) kmsg.Request { return foldersOf(w.data(), 0) }},
	{"of an unknown topic", 0, func(*world, int16) kmsg.Request { return foldersOf("nowhere", 0) }},
}

func foldersOf(topic string, partitions ...int32) kmsg.Request {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	t := kmsg.NewDescribeLogDirsRequestTopic()
	t.Topic, t.Partitions = topic, partitions
	req.Topics = append(req.Topics, t)
	return req
}

func grows(name, topic string, count int32, change func(*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsRequestTopic)) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		topic := topic
		if topic == "" {
			topic = w.topic(numbered("grown", v)+"-"+dotted(name), 2)
		}
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.TimeoutMillis = 30_000
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic, t.Count = topic, count
		change(req, &t)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

func growsPlainly(*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsRequestTopic) {}

func growsOn(nodes ...int32) func(*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsRequestTopic) {
	return func(_ *kmsg.CreatePartitionsRequest, t *kmsg.CreatePartitionsRequestTopic) {
		for _, n := range nodes {
			a := kmsg.NewCreatePartitionsRequestTopicAssignment()
			a.Replicas = []int32{n}
			t.Assignment = append(t.Assignment, a)
		}
	}
}

var growing = []probe{
	grows("to three", "", 3, growsPlainly), grows("to as many", "", 2, growsPlainly), grows("to fewer", "", 1, growsPlainly), grows("to none", "", 0, growsPlainly),
	grows("for validation", "", 3, func(r *kmsg.CreatePartitionsRequest, _ *kmsg.CreatePartitionsRequestTopic) { r.ValidateOnly = true }),
	grows("of an unknown topic", "nowhere", 3, growsPlainly), grows("on this node", "", 3, growsOn(1000)), grows("on another node", "", 3, growsOn(77)),
	grows("on too many nodes", "", 3, growsOn(1000, 1000)),
}

var electing = []probe{
	elects("of a partition that has its leader", "data", 0), elects("of an unknown partition", "data", 9), elects("of an unknown topic", "nowhere", 0),
}

func elects(name, topic string, partition int32) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrElectLeadersRequest()
		req.TimeoutMillis = 30_000
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, t)
		return req
	}}
}

var reassigning = []probe{
	reassigns("to this node", "data", 0, 1000), reassigns("to another node", "data", 0, 77), reassigns("of an unknown partition", "data", 9, 1000),
	reassigns("of an unknown topic", "nowhere", 0, 1000), reassigns("that is to end", "data", 0),
}

func reassigns(name, topic string, partition int32, nodes ...int32) probe {
	return probe{name, 0, func(w *world, v int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		req.TimeoutMillis = 30_000
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = topic
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = partition, nodes
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		return req
	}}
}

var reassignments = []probe{{"of all", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 30_000
	return req
}}, {"of an unknown topic", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewListPartitionReassignmentsRequestTopic()
	t.Topic, t.Partitions = "nowhere", []int32{0}
	req.Topics = append(req.Topics, t)
	return req
}}}

var cluster = []probe{
	{"of nodes", 0, func(*world, int16) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.IncludeClusterAuthorizedOperations, req.EndpointType = true, 1
		return req
	}},
	{"of controllers", 1, func(*world, int16) kmsg.Request {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType = 2
		return req
	}},
}

var configResources = []probe{{"of nodes", 1, func(w *world, _ int16) kmsg.Request {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{int8(ofBroker)}
	return req
}}, {"of clients' metrics", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.ResourceTypes = []int8{16}
	return req
}}}

func asksPartitions(name string, limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, topics ...string) probe {
	return probe{name, 0, func(w *world, _ int16) kmsg.Request {
		w.data()
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit, req.Cursor = limit, cursor
		for _, n := range topics {
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = n
			req.Topics = append(req.Topics, t)
		}
		return req
	}}
}

var partitions = []probe{
	asksPartitions("of a topic", 2000, nil, "data"), asksPartitions("of a topic, one at a time", 1, nil, "data"),
	asksPartitions("of a topic, from the second on", 2000, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "data", Partition: 1}, "data"),
	asksPartitions("of an unknown topic", 2000, nil, "nowhere"), asksPartitions("of two topics", 2000, nil, "one", "data"),
	asksPartitions("with a cursor elsewhere", 2000, &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "other"}, "data"),
}

var handshakes = []probe{{"on a listener without SASL", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = "PLAIN"
	return req
}}}

var authenticating = []probe{{"on a listener without SASL", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = []byte("\x00user\x00password")
	return req
}}}

var credentials = []probe{{"of a user who is not there", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
	u.Name = "nobody"
	req.Users = append(req.Users, u)
	return req
}}}

var changingCredentials = []probe{{"of a user who is not there", 0, func(*world, int16) kmsg.Request {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
	d.Name, d.Mechanism = "nobody", 1
	req.Deletions = append(req.Deletions, d)
	return req
}}}

var clientQuotas = []probe{{"of everybody", 0, func(*world, int16) kmsg.Request { return kmsg.NewPtrDescribeClientQuotasRequest() }}}

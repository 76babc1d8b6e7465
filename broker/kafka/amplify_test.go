package kafka

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A small request that names the same things again and again, or very many, does
// not get an answer a thousand times its size.
func TestI9SmallRequestsHaveNoHugeAnswers(t *testing.T) {
	h := start(t)
	h.topic("t", 500, nil)
	const times = 5000
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version, configs.IncludeSynonyms, configs.IncludeDocumentation = 4, true, true
	dirs, producers := kmsg.NewPtrDescribeLogDirsRequest(), kmsg.NewPtrDescribeProducersRequest()
	dirs.Version = 4
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.ResponsePartitionLimit = 1 << 30
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.ValidateOnly = 7, true
	for i := range times {
		c := kmsg.NewDescribeConfigsRequestResource()
		c.ResourceType, c.ResourceName = ofTopic, "t"
		configs.Resources = append(configs.Resources, c)
		dirs.Topics = append(dirs.Topics, kmsg.DescribeLogDirsRequestTopic{Topic: "t"})
		producers.Topics = append(producers.Topics, kmsg.DescribeProducersRequestTopic{Topic: "t", Partitions: []int32{0, 0, 0, 1, 1}})
		pages.Topics = append(pages.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: "t"})
		create.Topics = append(create.Topics, newTopic(fmt.Sprint(i), 3))
	}
	for _, req := range []kmsg.Request{configs, dirs, producers, pages, create} {
		c := h.dial()
		sent := frame(req, 1)
		if got := c.receive(c.send(req)); len(got) > 80*len(sent) {
			t.Errorf("%s: %d bytes are answered with %d", kmsg.NameForKey(req.Key()), len(sent), len(got))
		}
	}
	refused := 0
	for _, topic := range ask[*kmsg.CreateTopicsResponse](h.dial(), create).Topics {
		if topic.ErrorCode == codePolicyViolation {
			refused++
		}
	}
	if refused != times-(maxCreated+2)/3 {
		t.Errorf("%d of %d topics were refused", refused, times)
	}
	configs.Resources = configs.Resources[:1]
	h.topic("u", 1, nil)
	u := configs.Resources[0]
	u.ResourceName = "u"
	configs.Resources = append(configs.Resources, u, u)
	got := ask[*kmsg.DescribeConfigsResponse](h.dial(), configs).Resources
	if got[0].ErrorCode != 0 || got[1].ErrorCode != codeInvalidRequest || got[2].ErrorCode != codeInvalidRequest {
		t.Errorf("%d, %d, %d", got[0].ErrorCode, got[1].ErrorCode, got[2].ErrorCode)
	}
}

// Settings of very many topics do not fit one answer: it says which are left out.
func TestI9DescribeConfigsEnds(t *testing.T) {
	h := start(t)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	const topics = 3200
	for i := range topics {
		c := kmsg.NewDescribeConfigsRequestResource()
		c.ResourceType, c.ResourceName = ofTopic, fmt.Sprint("t", i)
		h.topic(c.ResourceName, 1, nil)
		req.Resources = append(req.Resources, c)
	}
	whole, refused := 0, 0
	for _, r := range ask[*kmsg.DescribeConfigsResponse](h.dial(), req).Resources {
		if r.ErrorCode == 0 && len(r.Configs) > 30 {
			whole++
		} else if r.ErrorCode == codeInvalidRequest && len(r.Configs) == 0 && r.ErrorMessage != nil {
			refused++
		}
	}
	if whole+refused != topics || whole < 3000 || refused == 0 {
		t.Errorf("%d topics are described, %d are refused", whole, refused)
	}
}

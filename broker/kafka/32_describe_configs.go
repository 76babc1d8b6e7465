package kafka

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// DescribeConfigs (API 32): settings of topics, of this node, and of all nodes.
//
// Versions 1 to 4:
//   - 1: sources and synonyms
//   - 3: types and documentation
//   - 4: flexible
//
// A resource is answered once, and an answer has an end: short names in a request
// stand for long lists.
//
// Groups and client metrics have no settings here, so there are none to show. The
// loggers of a node are one, root.
func init() {
	register(api{key: 32, min: 1, max: 4, handle: decodes(describeConfigs)})
}

// maxDescribedConfigs bounds the settings in one answer; with synonyms and words
// one takes some 400 bytes. It is what 3,000 topics have.
const maxDescribedConfigs = 100_000

func describeConfigs(_ context.Context, r *request, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	twice := once(req.Resources, func(a *kmsg.DescribeConfigsRequestResource) resource { return resource{a.ResourceType, a.ResourceName} })
	left := maxDescribedConfigs
	for i := range req.Resources {
		ask := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		entries, err := []broker.ConfigEntry(nil), error(errTwice)
		if !twice[resource{ask.ResourceType, ask.ResourceName}] {
			entries, err = r.conn.server.configs(r, ask)
		}
		if left -= len(entries); left < 0 {
			entries, err = nil, errTooMany
		}
		out.ErrorCode, out.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		for _, e := range entries {
			if len(ask.ConfigNames) == 0 || slices.Contains(ask.ConfigNames, e.Name) {
				out.Configs = append(out.Configs, describeConfig(e, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

var errTooMany = withCode(codeInvalidRequest, "the answer would be too large: ask for less at once")

func (s *Server) configs(r *request, ask *kmsg.DescribeConfigsRequestResource) ([]broker.ConfigEntry, error) {
	switch ask.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		info, err := r.caller.findTopic(false, ask.ResourceName, [16]byte{})
		if err != nil {
			return nil, err
		}
		return s.broker.TopicConfigs(info), nil
	case kmsg.ConfigResourceTypeBroker:
		all, err := s.nodeNamed(ask.ResourceName)
		switch {
		case err != nil:
			return nil, err
		case all:
			return s.broker.RegionConfigs(), nil
		}
		return s.broker.NodeConfigs(s.facts(r.conn)), nil
	case kmsg.ConfigResourceTypeBrokerLogger:
		if all, err := s.nodeNamed(ask.ResourceName); err != nil {
			return nil, err
		} else if all {
			return nil, withCode(codeInvalidRequest, "Broker id must not be empty")
		}
		return []broker.ConfigEntry{s.rootLogger()}, nil
	case kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeGroupConfig:
		return nil, nil
	}
	return nil, withCode(codeInvalidRequest, fmt.Sprintf("resources of type %d have no settings", ask.ResourceType))
}

func describeConfig(e broker.ConfigEntry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value, c.ReadOnly = e.Name, e.Value, e.ReadOnly
	c.Source = configSources[e.Source]
	c.ConfigType = configTypes[e.Type]
	if e.Name == rootLogger {
		c.Source, c.ConfigType = kmsg.ConfigSourceDynamicBrokerLoggerConfig, kmsg.ConfigType(0)
	}
	if req.IncludeDocumentation {
		c.Documentation = ptr(e.Doc)
	}
	if !req.IncludeSynonyms {
		return c
	}
	for _, v := range e.Synonyms {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Value, s.Source = v.Name, &v.Value, configSources[v.Source]
		c.ConfigSynonyms = append(c.ConfigSynonyms, s)
	}
	return c
}

// configSources gives Kafka's word for each layer. It has none for namespaces;
// what they say is a default that somebody set.
var configSources = [...]kmsg.ConfigSource{
	topicconf.FromTopic:     kmsg.ConfigSourceDynamicTopicConfig,
	topicconf.FromNamespace: kmsg.ConfigSourceDynamicDefaultBrokerConfig,
	topicconf.FromNode:      kmsg.ConfigSourceDynamicBrokerConfig,
	topicconf.FromRegion:    kmsg.ConfigSourceDynamicDefaultBrokerConfig,
	topicconf.FromStatic:    kmsg.ConfigSourceStaticBrokerConfig,
	topicconf.FromDefault:   kmsg.ConfigSourceDefaultConfig,
}

var configTypes = [...]kmsg.ConfigType{
	topicconf.String: kmsg.ConfigTypeString,
	topicconf.Bool:   kmsg.ConfigTypeBoolean,
	topicconf.Int:    kmsg.ConfigTypeInt,
	topicconf.Long:   kmsg.ConfigTypeLong,
	topicconf.Double: kmsg.ConfigTypeDouble,
	topicconf.List:   kmsg.ConfigTypeList,
}

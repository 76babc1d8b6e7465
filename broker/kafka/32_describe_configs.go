package kafka

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
)

// DescribeConfigs (API 32): settings of topics and of this node.
//
// Versions 1 to 4:
//   - 1: sources and synonyms
//   - 3: types and documentation
//   - 4: flexible
//
// Other kinds of resources are refused.
func init() {
	register(api{key: 32, min: 1, max: 4, handle: decodes(describeConfigs)})
}

func describeConfigs(_ context.Context, r *request, req *kmsg.DescribeConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for i := range req.Resources {
		ask := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = ask.ResourceType, ask.ResourceName
		entries, err := r.conn.server.configs(r.caller, ask)
		out.ErrorCode, out.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		for _, e := range entries {
			if ask.ConfigNames == nil || slices.Contains(ask.ConfigNames, e.Name) {
				out.Configs = append(out.Configs, describeConfig(e, req))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (s *Server) configs(who *caller, ask *kmsg.DescribeConfigsRequestResource) ([]broker.ConfigEntry, error) {
	switch ask.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		info, err := who.findTopic(false, ask.ResourceName, [16]byte{})
		if err != nil {
			return nil, err
		}
		return s.broker.TopicConfigs(info), nil
	case kmsg.ConfigResourceTypeBroker:
		if ask.ResourceName != "" && ask.ResourceName != strconv.Itoa(int(s.cfg.NodeID)) {
			return nil, withCode(codeInvalidRequest, fmt.Sprintf("node %q is not this node, %d", ask.ResourceName, s.cfg.NodeID))
		}
		return s.broker.NodeConfigs(), nil
	}
	return nil, withCode(codeInvalidRequest, fmt.Sprintf("resources of type %d have no settings here", ask.ResourceType))
}

func describeConfig(e broker.ConfigEntry, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.Value = e.Name, ptr(e.Value)
	c.IsDefault, c.Source = !e.Own, configSource(e)
	c.ConfigType = configType(e.Type)
	if req.IncludeDocumentation {
		c.Documentation = ptr(e.Doc)
	}
	if !req.IncludeSynonyms {
		return c
	}
	if e.Own {
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(e.Name, e.Value, c.Source))
	}
	if e.Default != "" {
		c.ConfigSynonyms = append(c.ConfigSynonyms, synonym(e.Name, e.Default, kmsg.ConfigSourceDefaultConfig))
	}
	return c
}

func synonym(name, value string, source kmsg.ConfigSource) kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	s.Name, s.Value, s.Source = name, &value, source
	return s
}

func configSource(e broker.ConfigEntry) kmsg.ConfigSource {
	if e.Own {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}

func configType(t broker.ConfigType) kmsg.ConfigType {
	switch t {
	case broker.ConfigInt:
		return kmsg.ConfigTypeInt
	case broker.ConfigLong:
		return kmsg.ConfigTypeLong
	case broker.ConfigList:
		return kmsg.ConfigTypeList
	}
	return kmsg.ConfigTypeString
}

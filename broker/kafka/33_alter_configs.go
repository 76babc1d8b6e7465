package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// AlterConfigs (API 33): replaces all settings of a topic or a node. Old: clients
// that know IncrementalAlterConfigs use that.
//
// Versions 0 to 2; 2 is flexible.
func init() {
	register(api{key: 33, min: 0, max: 2, handle: decodes(alterConfigs)})
}

func alterConfigs(ctx context.Context, r *request, req *kmsg.AlterConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	twice := once(req.Resources, func(a *kmsg.AlterConfigsRequestResource) resource { return resource{a.ResourceType, a.ResourceName} })
	for i := range req.Resources {
		ask := &req.Resources[i]
		of := resource{ask.ResourceType, ask.ResourceName}
		err := error(errTwice)
		if !twice[of] {
			err = r.conn.server.replaceConfigs(ctx, r.caller, ask, req.ValidateOnly)
		}
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = of.kind, of.name
		out.ErrorCode, out.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (s *Server) replaceConfigs(ctx context.Context, who *caller, ask *kmsg.AlterConfigsRequestResource, check bool) error {
	of := resource{ask.ResourceType, ask.ResourceName}
	if err := s.alterable(who, of); err != nil {
		return err
	}
	configs := map[string]string{}
	for _, c := range ask.Configs {
		if _, ok := configs[c.Name]; ok {
			return errTwiceKey
		}
		if c.Value == nil {
			return withCode(codeInvalidRequest, "Null value not supported for : "+c.Name)
		}
		configs[c.Name] = *c.Value
	}
	if of.kind == kmsg.ConfigResourceTypeBroker {
		return s.broker.ReplaceNode(ctx, of.name, configs, check)
	}
	topic, err := who.parseTopic(of.name)
	if err != nil {
		return err
	}
	return invalidConfig(s.broker.ReplaceTopic(ctx, topic, configs, check))
}

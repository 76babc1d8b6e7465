package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// IncrementalAlterConfigs (API 44): changes settings of topics and nodes (KIP-339).
//
// Versions 0 and 1; 1 is flexible. All changes of a resource are made, or none.
func init() {
	register(api{key: 44, min: 0, max: 1, handle: decodes(incrementalAlterConfigs)})
}

var errTwiceKey = withCode(codeInvalidRequest, "Error due to duplicate config keys")

func incrementalAlterConfigs(ctx context.Context, r *request, req *kmsg.IncrementalAlterConfigsRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	twice := once(req.Resources, func(a *kmsg.IncrementalAlterConfigsRequestResource) resource {
		return resource{a.ResourceType, a.ResourceName}
	})
	for i := range req.Resources {
		ask := &req.Resources[i]
		of := resource{ask.ResourceType, ask.ResourceName}
		err := error(errTwice)
		if !twice[of] {
			err = r.conn.server.changeConfigs(ctx, r.caller, ask, req.ValidateOnly)
		}
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = of.kind, of.name
		out.ErrorCode, out.ErrorMessage = codeOf(scopeAdmin, err), text(err)
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func (s *Server) changeConfigs(ctx context.Context, who *caller, ask *kmsg.IncrementalAlterConfigsRequestResource, check bool) error {
	of := resource{ask.ResourceType, ask.ResourceName}
	if err := s.alterable(who, of); err != nil {
		return err
	}
	var changes []broker.ConfigChange
	seen := map[string]bool{}
	for _, c := range ask.Configs {
		one, err := change(c.Name, int8(c.Op), c.Value)
		switch {
		case err != nil:
			return err
		case seen[c.Name]:
			return errTwiceKey
		}
		seen[c.Name] = true
		changes = append(changes, one)
	}
	if of.kind == kmsg.ConfigResourceTypeBroker {
		return s.broker.AlterNode(ctx, of.name, changes, check)
	}
	topic, err := who.parseTopic(of.name)
	if err != nil {
		return err
	}
	return invalidConfig(s.broker.AlterTopic(ctx, topic, changes, check))
}

// invalidConfig gives a refused setting of a topic the code that tools expect.
func invalidConfig(err error) error {
	if rhumb.KindOf(err) == rhumb.KindInvalid && err != nil {
		return withCode(codeInvalidConfig, err.Error())
	}
	return err
}

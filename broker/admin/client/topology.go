package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
)

// Topology asks for what there is, as the JSON of a topology file.
func (c *Client) Topology(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, api.Prefix+"/topology", nil)
}

// PlanTopology asks what applying a topology file, as JSON, would do. With prune
// what it does not name is removed.
func (c *Client) PlanTopology(ctx context.Context, file json.RawMessage, prune bool) (configstore.Plan, error) {
	var p configstore.Plan
	err := c.call(ctx, "POST", api.Prefix+"/topology/plan", pruning(prune), file, &p)
	return p, err
}

// ApplyTopology applies a topology file. An error means that nothing was changed, or
// that the answer was lost; a step that failed is in what it gives.
func (c *Client) ApplyTopology(ctx context.Context, req api.TopologyApply, prune bool) (configstore.Applied, error) {
	var out configstore.Applied
	err := c.call(ctx, "POST", api.Prefix+"/topology/apply", pruning(prune), req, &out)
	return out, err
}

func pruning(prune bool) url.Values { return url.Values{"prune": {strconv.FormatBool(prune)}} }

package client

import (
	"context"

	"github.com/rhumbmq/rhumb/broker/admin/api"
)

// ConfigStatus asks how the region stands to the configuration store.
func (c *Client) ConfigStatus(ctx context.Context) (api.ConfigStatus, error) {
	return get[api.ConfigStatus](ctx, c, api.Prefix+"/config", nil)
}

// RestoreConfig has the region put its copies back into a store that went back, or
// say what it would put back.
func (c *Client) RestoreConfig(ctx context.Context, dry bool) (api.ConfigRestore, error) {
	var done api.ConfigRestore
	err := c.call(ctx, "POST", api.Prefix+"/config/restore", nil, api.ConfigRestoreRequest{DryRun: dry}, &done)
	return done, err
}

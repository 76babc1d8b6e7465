package client

import (
	"context"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func linkPath(peer rhumb.RegionName, what string) string {
	return api.Prefix + "/links/" + string(peer) + "/" + what
}

func post[T any](ctx context.Context, c *Client, path string, req any) (T, error) {
	var out T
	err := c.call(ctx, "POST", path, nil, req, &out)
	return out, err
}

// PauseLink stops the edges to a region, of one namespace (tenant/namespace) or all.
func (c *Client) PauseLink(ctx context.Context, peer rhumb.RegionName, namespace string) (api.PauseAnswer, error) {
	return post[api.PauseAnswer](ctx, c, linkPath(peer, "pause"), api.PauseRequest{Namespace: namespace})
}

// ResumeLink lets paused edges go on.
func (c *Client) ResumeLink(ctx context.Context, peer rhumb.RegionName, namespace string) (api.PauseAnswer, error) {
	return post[api.PauseAnswer](ctx, c, linkPath(peer, "resume"), api.PauseRequest{Namespace: namespace})
}

// RetryLink has what waits for another try be tried at once.
func (c *Client) RetryLink(ctx context.Context, peer rhumb.RegionName, req api.RetryRequest) (api.RetryAnswer, error) {
	return post[api.RetryAnswer](ctx, c, linkPath(peer, "retry"), req)
}

// SkipOnLink leaves records out on the way to a region, or says what that would do.
func (c *Client) SkipOnLink(ctx context.Context, peer rhumb.RegionName, req api.SkipRequest) (api.SkipAnswer, error) {
	return post[api.SkipAnswer](ctx, c, linkPath(peer, "skip"), req)
}

// CheckLink looks at all that the link to a region needs.
func (c *Client) CheckLink(ctx context.Context, peer rhumb.RegionName) (api.LinkChecks, error) {
	return get[api.LinkChecks](ctx, c, linkPath(peer, "check"), nil)
}

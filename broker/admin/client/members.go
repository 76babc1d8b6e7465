package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func memberPath(name rhumb.RegionName) string { return api.Prefix + "/regions/" + string(name) }

// Member asks for a region's document.
func (c *Client) Member(ctx context.Context, name rhumb.RegionName) (api.Member, error) {
	return get[api.Member](ctx, c, memberPath(name), nil)
}

// RegisterRegion registers a region that is to start for the first time.
func (c *Client) RegisterRegion(ctx context.Context, name rhumb.RegionName, change api.MemberChange) (api.Member, error) {
	var m api.Member
	err := c.call(ctx, "PUT", memberPath(name), creating(true), change, &m)
	return m, err
}

// UpdateRegion changes a region's addresses.
func (c *Client) UpdateRegion(ctx context.Context, name rhumb.RegionName, change api.MemberChange) (api.Member, error) {
	var m api.Member
	err := c.call(ctx, "PUT", memberPath(name), creating(false), change, &m)
	return m, err
}

// DrainRegion has a region take no producers any more, or take them again.
func (c *Client) DrainRegion(ctx context.Context, name rhumb.RegionName, undo bool) (api.Member, error) {
	var m api.Member
	err := c.call(ctx, "POST", memberPath(name)+"/drain", nil, api.DrainRequest{Undo: undo}, &m)
	return m, err
}

// ReplaceRegion lets a region start with another data directory.
func (c *Client) ReplaceRegion(ctx context.Context, name rhumb.RegionName) (api.Member, error) {
	var m api.Member
	err := c.call(ctx, "POST", memberPath(name)+"/replace", nil, nil, &m)
	return m, err
}

// RemoveRegion takes a region out of the mesh and gives its tombstone.
func (c *Client) RemoveRegion(ctx context.Context, name rhumb.RegionName, force bool) (api.RemovedMember, error) {
	var m api.RemovedMember
	err := c.call(ctx, "DELETE", memberPath(name), url.Values{"force": {strconv.FormatBool(force)}}, nil, &m)
	return m, err
}

package client

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// get makes a GET call that answers a T.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	var answer T
	err := c.call(ctx, "GET", path, query, nil, &answer)
	return answer, err
}

// Region asks who answers.
func (c *Client) Region(ctx context.Context) (api.Region, error) {
	return get[api.Region](ctx, c, api.Prefix+"/region", nil)
}

// Regions asks for all regions of the mesh.
func (c *Client) Regions(ctx context.Context) ([]api.RegionEntry, error) {
	list, err := get[api.RegionList](ctx, c, api.Prefix+"/regions", nil)
	return list.Regions, err
}

// Edges asks for all edges of the mesh.
func (c *Client) Edges(ctx context.Context) ([]api.Edge, error) {
	list, err := c.EdgeList(ctx)
	return list.Edges, err
}

// EdgeList asks for all edges, and for the topics with a topology of their own.
func (c *Client) EdgeList(ctx context.Context) (api.EdgeList, error) {
	return get[api.EdgeList](ctx, c, api.Prefix+"/edges", nil)
}

// Links asks for the region's links.
func (c *Client) Links(ctx context.Context) ([]api.Link, error) {
	list, err := get[api.LinkList](ctx, c, api.Prefix+"/links", nil)
	return list.Links, err
}

// Paths asks for the origins that can come to the region over several paths.
func (c *Client) Paths(ctx context.Context) ([]api.OriginPaths, error) {
	list, err := get[api.PathList](ctx, c, api.Prefix+"/paths", nil)
	return list.Origins, err
}

// Diverged asks for the region's diverged partitions.
func (c *Client) Diverged(ctx context.Context) ([]api.Diverged, error) {
	list, err := get[api.DivergedList](ctx, c, api.Prefix+"/diverged", nil)
	return list.Diverged, err
}

// NewLife gives a diverged partition's log a new life, or says what that would do.
func (c *Client) NewLife(ctx context.Context, at rhumb.Partition, req api.NewLifeRequest) (api.NewLife, error) {
	var done api.NewLife
	err := c.call(ctx, "POST", partitionPath(at.Topic, at.Index)+"/life", nil, req, &done)
	return done, err
}

// Topics asks for all topics, by name.
func (c *Client) Topics(ctx context.Context) ([]api.Topic, error) {
	list, err := get[api.TopicList](ctx, c, api.Prefix+"/topics", nil)
	return list.Topics, err
}

// Describe asks for one topic and its partitions' figures.
func (c *Client) Describe(ctx context.Context, t rhumb.Topic) (api.TopicDetail, error) {
	return get[api.TopicDetail](ctx, c, topicPath(t), nil)
}

// CreateTopic makes a topic.
func (c *Client) CreateTopic(ctx context.Context, spec api.TopicSpec) (api.Topic, error) {
	var t api.Topic
	err := c.call(ctx, "POST", api.Prefix+"/topics", nil, spec, &t)
	return t, err
}

// DeleteTopic deletes a topic in its region or in the mesh, and gives it as it was.
// An empty scope is its namespace's. With force a deletion in the region alone takes what
// other regions lack from them.
func (c *Client) DeleteTopic(ctx context.Context, t rhumb.Topic, scope string, force bool) (api.Topic, error) {
	var was api.Topic
	query := url.Values{}
	if scope != "" {
		query.Set("scope", scope)
	}
	if force {
		query.Set("force", "true")
	}
	err := c.call(ctx, "DELETE", topicPath(t), query, nil, &was)
	return was, err
}

// GrowTopic gives a topic so many partitions.
func (c *Client) GrowTopic(ctx context.Context, t rhumb.Topic, partitions int32) (api.Topic, error) {
	var now api.Topic
	err := c.call(ctx, "POST", topicPath(t)+"/partitions", nil, api.PartitionsChange{Partitions: partitions}, &now)
	return now, err
}

// TopicSettings asks for what holds for a topic.
func (c *Client) TopicSettings(ctx context.Context, t rhumb.Topic) (api.TopicSettings, error) {
	return get[api.TopicSettings](ctx, c, topicPath(t)+"/configs", nil)
}

// AlterTopic changes settings of a topic and gives what holds then.
func (c *Client) AlterTopic(ctx context.Context, t rhumb.Topic, change api.SettingsChange) (api.TopicSettings, error) {
	var now api.TopicSettings
	err := c.call(ctx, "POST", topicPath(t)+"/configs", nil, change, &now)
	return now, err
}

// Gaps asks for the gap records of a topic, or of all topics for the zero one.
func (c *Client) Gaps(ctx context.Context, t rhumb.Topic) ([]api.Gap, error) {
	query := url.Values{}
	if t != (rhumb.Topic{}) {
		query.Set("topic", t.String())
	}
	list, err := get[api.GapList](ctx, c, api.Prefix+"/gaps", query)
	return list.Gaps, err
}

// Produce appends records as one batch.
func (c *Client) Produce(ctx context.Context, t rhumb.Topic, req api.ProduceRequest) (api.ProduceResponse, error) {
	var resp api.ProduceResponse
	err := c.call(ctx, "POST", topicPath(t)+"/records", nil, req, &resp)
	return resp, err
}

// ConsumeQuery says what to read of a partition.
type ConsumeQuery struct {
	Topic     rhumb.Topic
	Partition int32
	From      string        // earliest, latest or an offset
	Max       int           // records, 0: the server's default
	Wait      time.Duration // for records if there are none yet
}

// Consume reads records. At the end of what there is the list is empty.
func (c *Client) Consume(ctx context.Context, q ConsumeQuery) (api.RecordList, error) {
	query := url.Values{"from": {q.From}}
	if q.Max > 0 {
		query.Set("max", strconv.Itoa(q.Max))
	}
	if q.Wait > 0 {
		query.Set("wait", q.Wait.String())
	}
	return get[api.RecordList](ctx, c, partitionPath(q.Topic, q.Partition)+"/records", query)
}

// Tenants asks for all tenants of the mesh, by name.
func (c *Client) Tenants(ctx context.Context) ([]api.Tenant, error) {
	list, err := get[api.TenantList](ctx, c, api.Prefix+"/tenants", nil)
	return list.Tenants, err
}

// PutTenant stores the JSON document of a tenant. With create it is refused if
// there is one, else if there is none.
func (c *Client) PutTenant(ctx context.Context, name rhumb.Tenant, doc json.RawMessage, create bool) (api.Tenant, error) {
	var t api.Tenant
	err := c.call(ctx, "PUT", api.Prefix+"/tenants/"+string(name), creating(create), doc, &t)
	return t, err
}

// DeleteTenant deletes a tenant without namespaces and gives it as it was.
func (c *Client) DeleteTenant(ctx context.Context, name rhumb.Tenant) (api.Tenant, error) {
	var was api.Tenant
	err := c.call(ctx, "DELETE", api.Prefix+"/tenants/"+string(name), nil, nil, &was)
	return was, err
}

// Namespaces asks for all namespaces that have a document, by name.
func (c *Client) Namespaces(ctx context.Context) ([]api.Namespace, error) {
	list, err := get[api.NamespaceList](ctx, c, api.Prefix+"/namespaces", nil)
	return list.Namespaces, err
}

// PutNamespace stores the JSON document of a namespace, as PutTenant does.
func (c *Client) PutNamespace(ctx context.Context, at rhumb.Space, doc json.RawMessage, create bool) (api.Namespace, error) {
	var n api.Namespace
	err := c.call(ctx, "PUT", api.Prefix+"/namespaces/"+at.String(), creating(create), doc, &n)
	return n, err
}

// DeleteNamespace deletes a namespace and gives it as it was. Its topics stay.
func (c *Client) DeleteNamespace(ctx context.Context, at rhumb.Space) (api.Namespace, error) {
	var was api.Namespace
	err := c.call(ctx, "DELETE", api.Prefix+"/namespaces/"+at.String(), nil, nil, &was)
	return was, err
}

func creating(create bool) url.Values { return url.Values{"create": {strconv.FormatBool(create)}} }

// Users asks for all users of the mesh, by name.
func (c *Client) Users(ctx context.Context) ([]api.User, error) {
	list, err := get[api.UserList](ctx, c, api.Prefix+"/users", nil)
	return list.Users, err
}

// ChangeUser makes or changes a user.
func (c *Client) ChangeUser(ctx context.Context, change api.UserChange) (api.User, error) {
	var u api.User
	err := c.call(ctx, "POST", api.Prefix+"/users", nil, change, &u)
	return u, err
}

// DeleteUser deletes a user and gives it as it was.
func (c *Client) DeleteUser(ctx context.Context, name rhumb.UserName) (api.User, error) {
	var was api.User
	err := c.call(ctx, "DELETE", api.Prefix+"/users", url.Values{"name": {string(name)}}, nil, &was)
	return was, err
}

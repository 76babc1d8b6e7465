package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// otherWait is how long another region may take to say what it has of a topic.
const otherWait = 3 * time.Second

// described is a topic with what each region of its namespace has of it.
type described struct {
	api.TopicDetail
	Regions []api.TopicInRegion `json:"regions"` // by name; the one that was asked among them
}

func topicDescribe(a *asking) *cobra.Command {
	return &cobra.Command{Use: "describe TOPIC", Short: "Show a topic in each region, and its partitions with watermarks and floors per origin",
		Args: exactly(1, "one TOPIC"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			return askTopic(a, c, args[0], a.describe, describeTable)
		}}
}

// describe asks one region for the topic, and then all regions of its namespace.
func (a *asking) describe(conn *client.Client, ctx context.Context, t rhumb.Topic) (described, error) {
	detail, err := conn.Describe(ctx, t)
	if err != nil {
		return described{}, err
	}
	self, err := conn.Region(ctx)
	if err != nil {
		return described{}, err
	}
	others, err := neighbours(ctx, conn, t, self.Name)
	if err != nil {
		return described{}, err
	}
	out := described{TopicDetail: detail, Regions: make([]api.TopicInRegion, len(others)+1)}
	out.Regions[len(others)] = inRegion(self.Name, detail)
	var wg sync.WaitGroup
	for i, r := range others {
		wg.Go(func() { out.Regions[i] = a.elsewhere(ctx, r, t) })
	}
	wg.Wait()
	slices.SortFunc(out.Regions, func(x, y api.TopicInRegion) int { return cmp.Compare(x.Region, y.Region) })
	return out, nil
}

// neighbours gives the other regions that the topic's namespace flows from or to.
func neighbours(ctx context.Context, conn *client.Client, t rhumb.Topic, self rhumb.RegionName) ([]api.RegionEntry, error) {
	edges, err := conn.Edges(ctx)
	if err != nil {
		return nil, err
	}
	part := map[rhumb.RegionName]bool{}
	for _, e := range edges {
		if e.Tenant == t.Tenant && e.Namespace == t.Namespace {
			part[e.From], part[e.To] = true, true
		}
	}
	regions, err := conn.Regions(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(regions, func(r api.RegionEntry) bool { return r.Name == self || !part[r.Name] }), nil
}

// elsewhere asks another region what it has of a topic.
func (a *asking) elsewhere(ctx context.Context, r api.RegionEntry, t rhumb.Topic) api.TopicInRegion {
	ctx, cancel := context.WithTimeout(ctx, otherWait)
	defer cancel()
	out := api.TopicInRegion{Region: r.Name, State: "not reached", Lives: []rhumb.Life{}, Configs: map[string]string{}}
	conn, err := a.firstThatAnswers(ctx, r)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	defer conn.Close()
	detail, err := conn.Describe(ctx, t)
	switch {
	case rhumb.KindOf(err) == rhumb.KindNotFound && err != nil:
		out.State = "absent"
	case err != nil:
		out.Error = err.Error()
	default:
		out = inRegion(r.Name, detail)
	}
	return out
}

func inRegion(name rhumb.RegionName, t api.TopicDetail) api.TopicInRegion {
	out := api.TopicInRegion{Region: name, State: "there", Partitions: t.Partitions, Deletions: t.Deletions, Lives: []rhumb.Life{}, Configs: t.Configs}
	for _, p := range t.Logs {
		if !p.Ready {
			out.State = "being created"
		}
		out.Lives = append(out.Lives, p.Life)
	}
	return out
}

func describeTable(w io.Writer, t described) {
	fmt.Fprintf(w, "topic %s, id %s, created %s, %s\n\n", short(t.Topic.Topic), t.ID, when(t.CreatedAt), configText(t.Configs))
	row(w, "REGION", "STATE", "PARTITIONS", "DELETIONS", "LIFE OF 0", "CONFIGS")
	for _, r := range t.Regions {
		if len(r.Lives) == 0 {
			row(w, r.Region, r.State, "", "", "", r.Error)
			continue
		}
		row(w, r.Region, r.State, r.Partitions, r.Deletions, r.Lives[0], configText(r.Configs))
	}
	fmt.Fprintln(w)
	if what := t.differ(); what != "" {
		fmt.Fprintf(w, "The regions differ in %s: they agree within seconds while they reach each other and the configuration store; see 'rhumb config status' and 'rhumb link list'.\n\n", what)
	}
	logsTable(w, t.TopicDetail)
}

// differ says in what the regions that have the topic are not the same, "" if they are.
func (t described) differ() string {
	for _, r := range t.Regions {
		switch {
		case len(r.Lives) == 0:
		case r.Deletions != t.Deletions:
			return "their deletion counts"
		case r.Partitions != t.Partitions:
			return "their partitions"
		case !maps.Equal(r.Configs, t.Configs):
			return "their settings"
		}
	}
	return ""
}

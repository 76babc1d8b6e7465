package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// completionTime bounds what a key press may wait for.
const completionTime = time.Second

// lister asks a region for names; what it gave before an error counts.
type lister func(context.Context, *client.Client) []string

// complete offers names for the arguments from low on, below high; -1: without end.
// After them it offers nothing, not even files.
func (t *target) complete(low, high int, names lister) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) < low || high >= 0 && len(args) >= high {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completionTime)
		defer cancel()
		conn, err := t.connect(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp // offering none is the answer to an error
		}
		defer conn.Close()
		return names(ctx, conn), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeTopics offers the topics of the region from the n-th argument on.
func (t *target) completeTopics(from int) cobra.CompletionFunc {
	return asTyped(t.complete(from, -1, topicNames))
}

// completeTopic offers the topics of the region as the first argument.
func (t *target) completeTopic() cobra.CompletionFunc { return asTyped(t.complete(0, 1, topicNames)) }

// asTyped offers topics as tenant/namespace/topic, which is what people write, and with the
// scheme before it to who has typed that.
func asTyped(topics cobra.CompletionFunc) cobra.CompletionFunc {
	const scheme = "persistent://"
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		all, directive := topics(c, args, typed)
		if strings.HasPrefix(typed, "persistent:") {
			return all, directive
		}
		for i := range all {
			all[i] = strings.TrimPrefix(all[i], scheme)
		}
		return all, directive
	}
}

// completeSettings offers, after a topic, what to do with its settings, and their names.
func (t *target) completeSettings() cobra.CompletionFunc {
	return first(t.completeTopic(), 1, func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 1:
			return []string{"show", "set", "unset"}, cobra.ShellCompDirectiveNoFileComp
		case args[1] != "set" && args[1] != "unset":
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		topic, err := rhumb.ParseTopic(args[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := listed(func(conn *client.Client, ctx context.Context) ([]api.Setting, error) {
			s, err := conn.TopicSettings(ctx, topic)
			return s.Settings, err
		}, func(s *api.Setting) string {
			if args[1] == "set" {
				return s.Name + "="
			}
			return s.Name
		})
		all, _ := t.complete(2, -1, names)(c, args, typed)
		return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// completeTenant offers the tenants of the mesh as the first argument.
func (t *target) completeTenant() cobra.CompletionFunc { return t.complete(0, 1, tenantNames) }

// completeNamespace offers the namespaces of the mesh as the first argument.
func (t *target) completeNamespace() cobra.CompletionFunc { return t.complete(0, 1, namespaceNames) }

// completeUser offers the users of the mesh as the first argument, and after it
// what next offers.
func (t *target) completeUser(next cobra.CompletionFunc) cobra.CompletionFunc {
	return first(t.complete(0, 1, userNames), 1, next)
}

// completeRegions offers regions for the first n arguments, then what next offers.
func (t *target) completeRegions(n int, next cobra.CompletionFunc) cobra.CompletionFunc {
	return first(t.complete(0, n, regionNames), n, next)
}

// completePeers offers the regions to which the one that is asked has a link, which it is
// not itself, for the first argument, then what next offers.
func (t *target) completePeers(next cobra.CompletionFunc) cobra.CompletionFunc {
	return first(t.complete(0, 1, peerNames), 1, next)
}

// first completes the first n arguments with one function and the others with next.
func first(one cobra.CompletionFunc, n int, next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n && next != nil {
			return next(c, args, typed)
		}
		return one(c, args, typed)
	}
}

// offer completes the value of a flag. It only fails for a flag that is not there.
func offer(c *cobra.Command, flag string, fn cobra.CompletionFunc) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return fn(c, nil, typed) // which arguments there are says nothing about a flag
	})
}

var (
	topicNames     = listed((*client.Client).Topics, func(t *api.Topic) string { return short(t.Topic) })
	peerNames      = listed((*client.Client).Links, func(l *api.Link) string { return string(l.Peer) })
	regionNames    = listed((*client.Client).Regions, func(r *api.RegionEntry) string { return string(r.Name) })
	tenantNames    = listed((*client.Client).Tenants, func(t *api.Tenant) string { return string(t.Name) })
	namespaceNames = listed((*client.Client).Namespaces, func(n *api.Namespace) string { return n.Space.String() })
	userNames      = listed((*client.Client).Users, func(u *api.User) string { return string(u.Name) })
)

// listed is the lister of what a call of the API gives.
func listed[T any](ask func(*client.Client, context.Context) ([]T, error), name func(*T) string) lister {
	return func(ctx context.Context, conn *client.Client) []string {
		all, _ := ask(conn, ctx)
		out := make([]string, len(all))
		for i := range all {
			out[i] = name(&all[i])
		}
		return out
	}
}

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
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
	return t.complete(from, -1, topicNames)
}

// completeTopic offers the topics of the region as the first argument.
func (t *target) completeTopic() cobra.CompletionFunc { return t.complete(0, 1, topicNames) }

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

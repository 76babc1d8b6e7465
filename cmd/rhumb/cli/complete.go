package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

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

func topicNames(ctx context.Context, conn *client.Client) (out []string) {
	all, _ := conn.Topics(ctx)
	for _, t := range all {
		out = append(out, short(t.Topic))
	}
	return out
}

func regionNames(ctx context.Context, conn *client.Client) (out []string) {
	all, _ := conn.Regions(ctx)
	for _, r := range all {
		out = append(out, string(r.Name))
	}
	return out
}

func tenantNames(ctx context.Context, conn *client.Client) (out []string) {
	all, _ := conn.Tenants(ctx)
	for _, t := range all {
		out = append(out, string(t.Name))
	}
	return out
}

func namespaceNames(ctx context.Context, conn *client.Client) (out []string) {
	all, _ := conn.Namespaces(ctx)
	for _, n := range all {
		out = append(out, n.Space.String())
	}
	return out
}

func userNames(ctx context.Context, conn *client.Client) (out []string) {
	all, _ := conn.Users(ctx)
	for _, u := range all {
		out = append(out, string(u.Name))
	}
	return out
}

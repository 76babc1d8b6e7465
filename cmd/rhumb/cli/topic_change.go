package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func topicDelete(a *asking) *cobra.Command {
	var scope string
	var force bool
	c := &cobra.Command{Use: "delete TOPIC", Short: "Delete a topic and its records in all its regions, or in one",
		Long: "Delete a topic and its records wherever its namespace's delete_scope says, or as far as --scope says.\n\n" +
			"mesh: in all regions, which needs the configuration store. A region that is away deletes it when it is back; nothing\n" +
			"brings an old record, setting or position back, also if the name is used again at once.\n" +
			"region: in the region that is asked. The others go on, and links leave the topic out there until it is created\n" +
			"there again; then it gets what the others published and still hold. While others lack records that come from there it is refused,\n" +
			"after a moment, unless --force says to lose them.",
		Args: exactly(1, "one TOPIC"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			if scope != "" && scope != "mesh" && scope != "region" {
				return usage(c, fmt.Errorf("--scope %q: scope must be mesh or region", scope))
			}
			remove := func(conn *client.Client, ctx context.Context, t rhumb.Topic) (api.Topic, error) {
				return conn.DeleteTopic(ctx, t, scope, force)
			}
			return askTopic(a, c, args[0], remove, func(w io.Writer, was api.Topic) { fmt.Fprintf(w, "deleted %s\n", short(was.Topic)) })
		}}
	c.Flags().StringVar(&scope, "scope", "", "mesh or region (default: what the namespace says)")
	c.Flags().BoolVar(&force, "force", false, "in one region: also while others lack records of it, which are lost there")
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"mesh", "region"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func topicPartitions(a *asking) *cobra.Command {
	return &cobra.Command{Use: "partitions TOPIC N", Short: "Give a topic N partitions, in all its regions",
		Args: exactly(2, "a TOPIC and how many partitions it shall have"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < 1 {
				return usage(c, fmt.Errorf("%q is no number of partitions", args[1]))
			}
			grow := func(conn *client.Client, ctx context.Context, t rhumb.Topic) (api.Topic, error) {
				return conn.GrowTopic(ctx, t, int32(n))
			}
			return askTopic(a, c, args[0], grow, func(w io.Writer, t api.Topic) {
				fmt.Fprintf(w, "%s has partitions: %d\n", short(t.Topic), t.Partitions)
			})
		}}
}

const configsLong = `Show or change the settings of a topic. They are the same in all regions of its namespace; a change needs the
configuration store.

  rhumb topic configs orders                                  what the topic says, and what else holds and has an effect
  rhumb topic configs orders set retention.ms=60000 …         change some, all or none
  rhumb topic configs orders unset retention.ms …             the namespace's, the region's or the default value holds then`

func topicConfigs(a *asking) *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "configs TOPIC [show | set NAME=VALUE… | unset NAME…]", Short: "Show or change a topic's settings", Long: configsLong,
		Args: between(1, -1, "a TOPIC, and what to do"), ValidArgsFunction: a.completeSettings(),
		RunE: func(c *cobra.Command, args []string) error {
			change, err := settingsChange(args[1:])
			if err != nil {
				return usage(c, err)
			}
			call := func(conn *client.Client, ctx context.Context, t rhumb.Topic) (api.TopicSettings, error) {
				if len(change.Set)+len(change.Unset) == 0 {
					return conn.TopicSettings(ctx, t)
				}
				return conn.AlterTopic(ctx, t, change)
			}
			return askTopic(a, c, args[0], call, func(w io.Writer, t api.TopicSettings) { settingsTable(w, t, all) })
		}}
	c.Flags().BoolVar(&all, "all", false, "show also what is kept and does nothing")
	return c
}

// settingsChange reads what a command line asks to change; nothing is to show.
func settingsChange(words []string) (api.SettingsChange, error) {
	var change api.SettingsChange
	if len(words) == 0 || words[0] == "show" && len(words) == 1 {
		return change, nil
	}
	verb, words := words[0], words[1:]
	if verb != "set" && verb != "unset" || len(words) == 0 {
		return change, fmt.Errorf("want show, set NAME=VALUE… or unset NAME…, not %q", strings.Join(append([]string{verb}, words...), " "))
	}
	if verb == "unset" {
		change.Unset = words
		return change, nil
	}
	change.Set = map[string]string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return change, fmt.Errorf("want NAME=VALUE, not %q", word)
		}
		change.Set[name] = value
	}
	return change, nil
}

func settingsTable(w io.Writer, t api.TopicSettings, all bool) {
	row(w, "SETTING", "VALUE", "SOURCE")
	for _, s := range t.Settings {
		if all || s.Effect || s.Source == "topic" {
			row(w, s.Name, s.Value, s.Source)
		}
	}
	if t.Mesh {
		fmt.Fprintf(w, "\nWhat the topic says is the same in all regions.\n")
	}
}

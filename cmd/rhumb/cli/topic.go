package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// asking is what commands that ask one region share.
type asking struct {
	target
	format
}

func (a *asking) flags(c *cobra.Command) {
	a.target.flags(c)
	a.format.flags(c)
}

// ask runs fn with a client for the region that is meant.
func (a *asking) ask(c *cobra.Command, fn func(*client.Client) error) error {
	conn, err := a.connect(c.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	return fn(conn)
}

func topicCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "topic", Short: "List, describe, create, change and delete topics", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "A topic of a namespace that flows between regions is the same in all of them: it is made, grows, is configured and\n" +
			"is deleted in one, and within seconds in the others, or when they are back. Creating and growing need no\n" +
			"configuration store; changing settings, and deleting in the whole mesh, do."}
	a.flags(c)
	c.AddCommand(topicList(a), topicDescribe(a), topicCreate(a), topicDelete(a), topicPartitions(a), topicConfigs(a))
	return c
}

// helpOnly is the run of a command that has only children.
func helpOnly(c *cobra.Command, _ []string) error { return c.Help() }

func topicList(a *asking) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the topics of a region", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				topics, err := conn.Topics(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				return a.print(c.OutOrStdout(), api.TopicList{Topics: topics}, func(w io.Writer) {
					row(w, "TOPIC", "PARTITIONS", "CREATED", "CONFIGS")
					for _, t := range topics {
						row(w, short(t.Topic), t.Partitions, when(t.CreatedAt), configText(t.Configs))
					}
				})
			})
		}}
}

func logsTable(w io.Writer, t api.TopicDetail) {
	row(w, "PARTITION", "LIFE", "START", "END", "FLUSHED", "EPOCH", "SIZE")
	for _, p := range t.Logs {
		if !p.Ready {
			row(w, p.Partition, "being created")
			continue
		}
		row(w, p.Partition, p.Life, p.LogStart, p.End, p.FlushedEnd, p.LeaderEpoch, size(p.Bytes))
	}
	fmt.Fprintln(w)
	row(w, "PARTITION", "ORIGIN", "LIFE", "WATERMARK", "FLOOR", "CHAIN")
	for _, p := range t.Logs {
		for _, o := range p.Origins {
			name := regionText(o.RegionName, o.Region)
			if o.Own {
				name += " (own)"
			}
			if o.Closed {
				name += " (closed)"
			}
			row(w, p.Partition, name, o.Life, o.Watermark, o.Floor, o.Chain)
		}
	}
}

func regionText(name rhumb.RegionName, number rhumb.RegionNumber) string {
	if name == "" {
		return fmt.Sprintf("number %d", number)
	}
	return string(name)
}

func configText(configs map[string]string) string {
	if len(configs) == 0 {
		return "defaults"
	}
	var all []string
	for _, k := range sortedKeys(configs) {
		all = append(all, k+"="+configs[k])
	}
	return strings.Join(all, " ")
}

func topicCreate(a *asking) *cobra.Command {
	var spec api.TopicSpec
	c := &cobra.Command{Use: "create TOPIC", Short: "Make a topic in all regions of its namespace",
		Args: exactly(1, "one TOPIC"),
		RunE: func(c *cobra.Command, args []string) error {
			spec.Topic = args[0]
			if _, err := topicNamed(c, spec.Topic); err != nil {
				return err
			}
			if spec.Partitions < 0 {
				return usage(c, fmt.Errorf("--partitions %d: must not be below 0", spec.Partitions))
			}
			return a.ask(c, func(conn *client.Client) error {
				t, err := conn.CreateTopic(c.Context(), spec)
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), t, func(w io.Writer) {
					fmt.Fprintf(w, "created %s with partitions: %d\n", short(t.Topic), t.Partitions)
				})
			})
		}}
	c.Flags().Int32Var(&spec.Partitions, "partitions", 0, "how many (default: the region's)")
	c.Flags().StringToStringVar(&spec.Configs, "config", nil, "settings, as NAME=VALUE")
	return c
}

// askTopic makes one call about a named topic and prints the answer.
func askTopic[T any](a *asking, c *cobra.Command, topic string, call func(*client.Client, context.Context, rhumb.Topic) (T, error), table func(io.Writer, T)) error {
	name, err := topicNamed(c, topic)
	if err != nil {
		return err
	}
	return a.ask(c, func(conn *client.Client) error {
		answer, err := call(conn, c.Context(), name)
		if err != nil {
			return err
		}
		return a.print(c.OutOrStdout(), answer, func(w io.Writer) { table(w, answer) })
	})
}

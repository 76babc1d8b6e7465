package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func gapCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "gap", Short: "Show gaps: records that existed and will never come", Args: cobra.NoArgs, RunE: helpOnly}
	a.flags(c)
	c.AddCommand(gapList(a), gapShow(a))
	return c
}

func gapList(a *asking) *cobra.Command {
	return &cobra.Command{Use: "list [TOPIC]", Short: "List a region's gap records with their reasons",
		Args: between(0, 1, "at most one TOPIC"), ValidArgsFunction: a.completeTopics(0),
		RunE: func(c *cobra.Command, args []string) error {
			var name rhumb.Topic
			if len(args) == 1 {
				var err error
				if name, err = topicNamed(c, args[0]); err != nil {
					return err
				}
			}
			return a.ask(c, func(conn *client.Client) error {
				gaps, err := conn.Gaps(c.Context(), name)
				if err != nil {
					return err
				}
				noteCut(c, conn)
				return a.print(c.OutOrStdout(), api.GapList{Gaps: gaps}, func(w io.Writer) {
					row(w, "TOPIC", "PARTITION", "GAP", "ORIGIN", "LIFE", "FROM", "TO", "REASON", "AT", "BY")
					for _, g := range gaps {
						row(w, short(g.Topic), g.Partition, g.Number, regionText(g.RegionName, g.Region), g.Life, g.From, g.To, g.Reason, when(g.At), g.By)
					}
				})
			})
		}}
}

// gapReasons says what each reason means, and what can be done.
var gapReasons = map[string]string{
	"retention":           "The origin's retention dropped them before they crossed. A longer retention there, or backlog.hold of the namespace, keeps more.",
	"backlog":             "The origin kept them for this region as long as the namespace's backlog, or its own settings, allow; then they went. See 'rhumb link list' there.",
	"deleted":             "Somebody deleted them at the origin (DeleteRecords) before they crossed. The audit log there says who.",
	"lost":                "No region on a path to this one holds them any more.",
	"skipped by operator": "An operator skipped them on the way here, with 'rhumb link skip'. The origin still has them, as far as its retention goes.",
}

// gapDetail is "gap show -o json".
type gapDetail struct {
	api.Gap
	// Records is how many records are missing at most: other regions' take offsets, too.
	Records int64 `json:"records"`
	// Meaning says what the reason is about, and what can be done.
	Meaning string `json:"meaning"`
}

func gapShow(a *asking) *cobra.Command {
	var partition int32
	var number uint64
	c := &cobra.Command{Use: "show TOPIC", Short: "Show one gap: what is missing, why, since when and by whom", Args: exactly(1, "one TOPIC"),
		Long:              "Show one gap of a partition, by the number that 'rhumb gap list' prints.",
		ValidArgsFunction: a.completeTopics(0),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicNamed(c, args[0])
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				gaps, err := conn.Gaps(c.Context(), name)
				if err != nil {
					return err
				}
				for _, g := range gaps {
					if g.Partition == partition && g.Number == number {
						d := gapDetail{Gap: g, Records: int64(g.To - g.From + 1), Meaning: gapReasons[g.Reason]}
						return a.print(c.OutOrStdout(), d, func(w io.Writer) { gapText(w, d) })
					}
				}
				return rhumb.Errorf(rhumb.KindNotFound, "partition %d of %s has no gap %d: see 'rhumb gap list %s'", partition, name.Short(), number, name.Short())
			})
		}}
	c.Flags().Int32Var(&partition, "partition", 0, "which partition")
	c.Flags().Uint64Var(&number, "number", 0, "which of its gaps")
	return c
}

func gapText(w io.Writer, d gapDetail) {
	row(w, "topic", short(d.Topic))
	row(w, "partition", d.Partition)
	row(w, "origin", regionText(d.RegionName, d.Region)+", life "+d.Life.String())
	row(w, "missing", fmt.Sprintf("offsets %d to %d there, at most %d records", d.From, d.To, d.Records))
	row(w, "reason", d.Reason)
	row(w, "found", when(d.At))
	row(w, "by", d.By)
	fmt.Fprintln(w, d.Meaning)
	fmt.Fprintln(w, "This region's log goes on without a hole: its consumers and its own records are not affected, and records of that origin after the gap are there.")
}

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func linkDiverged(a *asking) *cobra.Command {
	return &cobra.Command{Use: "diverged", Short: "List partitions of a region whose copies in other regions differ", Args: exactly(0, "none"),
		Long: "List partitions of a region whose copies in other regions differ where they must be the same, and where they part.\n" +
			"That happens to a region whose data directory was restored from an old copy. 'rhumb link resolve' lets them go on.",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				all, err := conn.Diverged(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				return a.print(c.OutOrStdout(), api.DivergedList{Diverged: all}, func(w io.Writer) {
					row(w, "TOPIC", "PARTITION", "OF", "END", "REGION", "LAST COMMON", "IT HAS UP TO", "FOUND")
					for _, d := range all {
						for _, to := range d.Destinations {
							row(w, short(d.Topic), d.Partition, ofText(d), d.End, to.Region, commonText(to), to.Watermark, when(to.At))
						}
					}
				})
			})
		}}
}

func commonText(d api.DivergedDestination) string {
	if !d.Exact {
		return fmt.Sprintf("%d or later", d.Common)
	}
	return fmt.Sprint(d.Common)
}

// ofText says whose records differ: the region's own, or copies of another life.
func ofText(d api.Diverged) string {
	if d.Copy {
		return fmt.Sprintf("%d:%.8s", d.Origin, d.Life)
	}
	return "own"
}

const resolveLong = `Let a diverged partition go on: the region that the command asks, the source, gives its log a new life from the
last offset on that it has in common with every region whose copy differs.

The source keeps all its records, and each of them reaches every region once: up to that offset under the old
life, behind it under the new one. What another region has of the old life behind it, and the source has
forgotten, stays there, is served there, and is not brought back to the source. Nothing is deleted anywhere.

Of a region that was removed, or whose data directory was replaced, no log is left to which a new life could be
given. If copies of such a life differ, both are left as they are: each region keeps and serves what it has. The one
that reaches less far gets a gap, which says so, up to where the other one ends, and they owe each other nothing more.

Without --yes it says what it would do and changes nothing.`

func linkResolve(a *asking) *cobra.Command {
	var partition int32
	var yes bool
	c := &cobra.Command{Use: "resolve TOPIC", Short: "Let a diverged partition go on under a new life", Long: resolveLong,
		Args: exactly(1, "one TOPIC"), ValidArgsFunction: a.completeTopic(),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := topicNamed(c, args[0])
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				return resolve(a, c, conn, rhumb.Partition{Topic: name, Index: partition}, yes)
			})
		}}
	c.Flags().Int32Var(&partition, "partition", 0, "which partition")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// resolve shows the plan, and does it if it was agreed to. A partition that is
// not diverged needs nothing: a second time is no failure.
func resolve(a *asking, c *cobra.Command, conn *client.Client, at rhumb.Partition, yes bool) error {
	all, err := conn.Diverged(c.Context())
	if err != nil {
		return err
	}
	seen := false
	for i := range all {
		if all[i].Topic != at.Topic.String() || all[i].Partition != at.Index {
			continue
		}
		seen = true
		done, err := conn.NewLife(c.Context(), at, api.NewLifeRequest{Life: &all[i].Life, DryRun: !yes})
		if err != nil {
			return err
		}
		text := newLifeText
		if done.Copy {
			text = leftApartText
		}
		if err := a.print(c.OutOrStdout(), done, func(w io.Writer) { text(w, done) }); err != nil {
			return err
		}
	}
	if !seen {
		return nothingDiverged(a, c, conn, at)
	}
	if !yes {
		fmt.Fprintln(c.ErrOrStderr(), "rhumb: nothing was changed: say --yes to do it")
		return &toldError{exitFailed}
	}
	return nil
}

func nothingDiverged(a *asking, c *cobra.Command, conn *client.Client, at rhumb.Partition) error {
	t, err := conn.Describe(c.Context(), at.Topic)
	if err != nil {
		return err
	}
	if at.Index < 0 || at.Index >= t.Partitions {
		return rhumb.Errorf(rhumb.KindNotFound, "topic %s has partitions 0 to %d, not %d: see them with 'rhumb topic describe %[1]s'", at.Topic.Short(), t.Partitions-1, at.Index)
	}
	fmt.Fprintf(c.ErrOrStderr(), "rhumb: partition %d of %s is not diverged, as far as the links of this region have found since it started: nothing to do\n", at.Index, at.Topic.Short())
	if a.format.String() == "table" {
		return nil
	}
	whole := api.NewLife{Diverged: api.Diverged{Topic: t.Topic.Topic, Partition: at.Index, Destinations: []api.DivergedDestination{}}, Last: rhumb.NoOffset, Exact: true}
	if i := int(at.Index); i < len(t.Logs) { // the life keeps all that it has
		whole.Life, whole.End, whole.Last = t.Logs[i].Life, t.Logs[i].End, t.Logs[i].End-1
	}
	return a.print(c.OutOrStdout(), whole, nil)
}

// leftApartText says what becomes of copies of which no log is left.
func leftApartText(w io.Writer, r api.NewLife) {
	gets, keeps := "would get", "would keep"
	if r.Done {
		gets, keeps = "has", "keeps"
	}
	fmt.Fprintf(w, "%s partition %d, a copy of life %s of region number %d, ends before %d\n", short(r.Topic), r.Partition, r.Life, r.Origin, r.End)
	for _, to := range r.Destinations {
		shorter, end := string(to.Region), r.End-1
		switch {
		case to.Watermark > end:
			shorter, end = "this region", to.Watermark
		case to.Watermark == end: // one of them has to reach further
			end++
		}
		fmt.Fprintf(w, "  %s has the same up to %s, and other records up to %d; %s %s a gap from %d to %d\n",
			to.Region, commonText(to), to.Watermark, shorter, gets, to.Common+1, end)
	}
	fmt.Fprintf(w, "No log of that life is left. Each region %s what it has.\n", keeps)
}

func newLifeText(w io.Writer, r api.NewLife) {
	will := func(future, past string) string {
		if r.Done {
			return past
		}
		return future
	}
	fmt.Fprintf(w, "%s partition %d, life %s, ends before %d\n", short(r.Topic), r.Partition, r.Life, r.End)
	for _, to := range r.Destinations {
		fmt.Fprintf(w, "  %s has the same up to %s, and other records up to %d\n", to.Region, commonText(to), to.Watermark)
	}
	if r.Last < 0 {
		fmt.Fprintf(w, "The old life %s no record; all %s a new one", will("would keep", "keeps"), will("would get", "have got"))
	} else {
		fmt.Fprintf(w, "The old life %s what lies up to %d; what lies behind it %s a new one", will("would keep", "keeps"), r.Last, will("would get", "has got"))
	}
	if r.Done {
		fmt.Fprintf(w, ", %s", r.NewLife)
	}
	fmt.Fprintln(w, ".")
	if behind := int64(r.End - 1 - r.Last); behind > 0 {
		fmt.Fprintf(w, "Of the source's offsets, %d %s under the new life to each region that lacks them.\n", behind, will("would go", "go"))
	}
	for _, to := range r.Destinations {
		if to.Watermark > r.Last {
			fmt.Fprintf(w, "%s keeps the old life's offsets %d to %d, which the source has forgotten: they do not come back to it.\n", to.Region, r.Last+1, to.Watermark)
		}
	}
	if !r.Exact {
		fmt.Fprintln(w, "It is not known exactly where the copies part: records behind the last common offset may be in a region twice.")
	}
	if r.Done {
		fmt.Fprintln(w, "See 'rhumb link list --partitions' for how it flows.")
	}
}

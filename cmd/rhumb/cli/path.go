package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const pathLong = `Where edges forward, the records of an origin may come to a region over several others; the region takes them over one of
these paths. The list has, by origin life and partition, the path that is used, since when and why, and the other ones.

The region that is asked tells of what comes to it, as far as it was offered since it started. Origins that only one
path leads from are not listed: their flow is in 'rhumb link list --partitions'.`

// pathStates are the states of a path.
var pathStates = []string{"used", "standby", "stalled", "down"}

func pathCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "path", Short: "Show over which path the records of each origin come", Args: cobra.NoArgs, RunE: helpOnly}
	a.flags(c)
	c.AddCommand(pathList(a), pathShow(a))
	return c
}

// pathFilter says which origins are shown.
type pathFilter struct {
	topic, origin, over string
	states              []string
	waiting             bool
}

func pathList(a *asking) *cobra.Command {
	f := &pathFilter{}
	c := &cobra.Command{Use: "list", Short: "List the origins that have several paths, with the one in use", Long: pathLong, Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				origins, err := conn.Paths(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				if err := f.known(c, conn, origins); err != nil {
					return err
				}
				if origins, err = f.apply(c, origins); err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), api.PathList{Origins: origins}, func(w io.Writer) { pathTable(w, origins) })
			})
		}}
	c.Flags().StringVar(&f.topic, "topic", "", "only of this topic")
	c.Flags().StringVar(&f.origin, "origin", "", "only what this region published")
	c.Flags().StringVar(&f.over, "over", "", "only what comes over this region")
	c.Flags().StringSliceVar(&f.states, "state", nil, "only those with a path in one of these states: used, standby, stalled, down")
	c.Flags().BoolVar(&f.waiting, "waiting", false, "only those where a gap waits for somebody who may still have the records")
	offer(c, "topic", a.completeTopic())
	offer(c, "origin", a.completeRegions(1, nil))
	offer(c, "over", a.completeRegions(1, nil))
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(pathStates, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// known refuses a topic and regions that are neither in the mesh nor in what is listed,
// such as one that was removed.
func (f *pathFilter) known(c *cobra.Command, conn *client.Client, origins []api.OriginPaths) error {
	for _, text := range []string{f.origin, f.over} {
		if text == "" || slices.ContainsFunc(origins, func(o api.OriginPaths) bool { return string(o.RegionName) == text || string(o.Over) == text }) {
			continue
		}
		name, err := regionName(c, text)
		if err != nil {
			return err
		}
		regions, err := conn.Regions(c.Context())
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(regions, func(r api.RegionEntry) bool { return r.Name == name }) {
			return noSuchRegion(name, regions, func(r *api.RegionEntry) string { return string(r.Name) })
		}
	}
	return knownTopic(c, conn, f.topic, func(full string) bool {
		return slices.ContainsFunc(origins, func(o api.OriginPaths) bool { return o.Topic == full })
	})
}

func (f *pathFilter) apply(c *cobra.Command, origins []api.OriginPaths) ([]api.OriginPaths, error) {
	if err := knownStates(c, f.states, pathStates); err != nil {
		return nil, err
	}
	topic := ""
	if f.topic != "" {
		name, err := topicNamed(c, f.topic)
		if err != nil {
			return nil, err
		}
		topic = name.String()
	}
	return slices.DeleteFunc(origins, func(o api.OriginPaths) bool {
		inState := slices.ContainsFunc(o.Paths, func(p api.Path) bool { return slices.Contains(f.states, p.State) })
		return topic != "" && o.Topic != topic || f.origin != "" && string(o.RegionName) != f.origin || f.over != "" && string(o.Over) != f.over ||
			len(f.states) > 0 && !inState || f.waiting && o.Waits == ""
	}), nil
}

func pathTable(w io.Writer, origins []api.OriginPaths) {
	row(w, "TOPIC", "PARTITION", "ORIGIN", "OVER", "SINCE", "OTHERS", "LAST MOVE")
	for _, o := range origins {
		var others []string
		for _, p := range o.Paths {
			if p.Over != o.Over {
				others = append(others, fmt.Sprintf("%s %s", p.Over, p.State))
			}
		}
		over := string(o.Over)
		if over == "" {
			over = "-"
		}
		row(w, short(o.Topic), o.Partition, originText(o), over, when(o.Moved.At), strings.Join(others, ", "), moveText(o.Moved))
	}
	for _, o := range origins {
		if o.Waits != "" {
			fmt.Fprintf(w, "%s partition %d, origin %s: a gap waits: %s\n", short(o.Topic), o.Partition, originText(o), o.Waits)
		}
	}
}

func originText(o api.OriginPaths) string {
	return fmt.Sprintf("%s:%.8s", regionText(o.RegionName, o.Region), o.Life)
}

// moveText says why the path in use is that one.
func moveText(m api.PathMove) string {
	switch {
	case m.At == 0:
		return ""
	case m.From == "":
		return m.Why
	}
	return fmt.Sprintf("from %s: %s", m.From, m.Why)
}

func pathShow(a *asking) *cobra.Command {
	return &cobra.Command{Use: "show TOPIC", Short: "Show every path of a topic's origins", Args: exactly(1, "one TOPIC"),
		Long: "Show every path over which the records of a topic may come, with how far it is from the origin, its state, and up to\n" +
			"which offset of the origin it said to have records; and when and why the path changed last.",
		ValidArgsFunction: a.completeTopics(0),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, func(conn *client.Client) error {
				origins, err := conn.Paths(c.Context())
				if err != nil {
					return err
				}
				f := &pathFilter{topic: args[0]}
				if err := f.known(c, conn, origins); err != nil {
					return err
				}
				if origins, err = f.apply(c, origins); err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), api.PathList{Origins: origins}, func(w io.Writer) { pathDetails(w, args[0], origins) })
			})
		}}
}

func pathDetails(w io.Writer, topic string, origins []api.OriginPaths) {
	if len(origins) == 0 {
		fmt.Fprintf(w, "Nothing of %s came here over one of several paths since this region started. See 'rhumb link list --partitions --topic %s'.\n", topic, topic)
		return
	}
	now := time.Now()
	row(w, "PARTITION", "ORIGIN", "OVER", "STATE", "EDGES", "LINK", "HAS UP TO", "NOTHING UP TO")
	for _, o := range origins {
		for _, p := range o.Paths {
			link := "up for "
			if p.State == "down" {
				link = "down for "
			}
			row(w, o.Partition, originText(o), p.Over, p.State, offsetText(rhumb.Offset(p.Hops-1), p.Hops), link+now.Sub(time.UnixMilli(p.Since)).Round(time.Second).String(),
				offsetText(p.End, p.End), offsetText(p.Floor, p.Floor))
		}
	}
	for _, o := range origins {
		if m := o.Moved; m.At > 0 {
			fmt.Fprintf(w, "partition %d, origin %s: over %s since %s: %s\n", o.Partition, originText(o), m.To, when(m.At), moveText(m))
		}
		if o.Waits != "" {
			fmt.Fprintf(w, "partition %d, origin %s: a gap waits: %s\n", o.Partition, originText(o), o.Waits)
		}
	}
}

// offsetText gives a figure that is told by an offset, "-" if that is none.
func offsetText(at rhumb.Offset, figure any) string {
	if at < 0 {
		return "-"
	}
	return fmt.Sprint(figure)
}

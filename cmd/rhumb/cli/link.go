package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/version"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

const linkListLong = `List a region's links: what each carries, how far its peer is behind, and its state.

With --partitions a line for each origin life of each partition: ORIGIN is who published the records, END the last
offset there that may leave, SENT up to where everything went out or was confirmed, CONFIRMED what the peer has.
Lag counts offsets between the last two and END, so it is the number of records at most. A dash: none, or not known.`

func linkCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "link", Short: "Show, check and steer links to other regions", Args: cobra.NoArgs, RunE: helpOnly}
	a.flags(c)
	var partitions bool
	f := &linkFilter{}
	list := &cobra.Command{Use: "list", Short: "List a region's links with lag, round trip and state", Args: exactly(0, "none"), Long: linkListLong,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				links, err := conn.Links(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				if err := f.known(c, conn, links); err != nil {
					return err
				}
				if links, err = f.apply(c, links); err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), api.LinkList{Links: links}, func(w io.Writer) { linkTable(w, links, partitions) })
			})
		}}
	list.Flags().BoolVar(&partitions, "partitions", false, "a line per partition too")
	f.flags(a, list)
	c.AddCommand(linkPauses(a)...)
	c.AddCommand(list, linkShow(a), linkRetry(a), linkSkip(a), linkCheck(a), linkDiverged(a), linkResolve(a))
	return c
}

func linkTable(w io.Writer, links []api.Link, partitions bool) {
	now := time.Now()
	row(w, "PEER", "STATE", "HEARD", "RTT", "OUT LAG", "OUT BYTES", "OUT AGE", "OUT RATE", "IN RATE", "LAST ERROR")
	for _, l := range links {
		row(w, l.Peer, l.State, heardText(l.Heard), tripText(l.RTT), atLeast(l.Out, figure(l.Out.LagRecords)), atLeast(l.Out, figure(l.Out.LagBytes)), atLeast(l.Out, seconds(l.Out.LagSeconds)),
			rate(l.Out.BytesPerSecond), rate(l.In.BytesPerSecond), lastError(l.LastError, l.LastErrorAt, l.ConnectionSince, l.State, now))
	}
	if !partitions {
		return
	}
	fmt.Fprintln(w)
	row(w, "PEER", "DIRECTION", "TOPIC", "PARTITION", "ORIGIN", "STATE", "END", "SENT", "CONFIRMED", "LAG", "AGE", "LAST ERROR")
	for _, l := range links {
		for _, p := range l.Partitions {
			row(w, l.Peer, p.Direction, short(p.Topic), p.Partition, fmt.Sprintf("%d:%.8s", p.Region, p.Life), stateText(p), offsetText(p.End, p.End), sentText(p),
				offsetText(p.Confirmed, p.Confirmed), figure(p.LagRecords), seconds(p.LagSeconds), partitionError(p, now))
		}
	}
}

// atLeast marks a lag that is a lower bound.
func atLeast(f api.Flow, lag string) string {
	if f.LagUnknown > 0 && lag != "?" {
		return ">=" + lag
	}
	return lag
}

// sentText is up to where a flow has sent: of one that comes in its sender knows that.
func sentText(p api.LinkPartition) string {
	if p.Direction != "out" {
		return "-"
	}
	return offsetText(p.Sent, p.Sent)
}

// errorShown is how long an error is shown after what it was about is well again.
const errorShown = time.Minute

// lastError gives a link's or a partition's last error with its age, nothing once
// it has been well for a while; since is when the link came up, 0 if not known.
func lastError(text string, at, since int64, state string, now time.Time) string {
	well := slices.Contains([]string{"connected", "idle", "flowing"}, state)
	age := now.Sub(time.UnixMilli(at))
	switch {
	case text == "" || at == 0:
		return text
	case well && age > errorShown && now.Sub(time.UnixMilli(since)) > errorShown:
		return ""
	}
	return fmt.Sprintf("%s ago: %s", max(0, age).Round(time.Second), text)
}

// limitText writes a limit that a person set, exactly and in the units that it was set in: of
// ten, or of two if only they fit.
func limitText(bytesPerSecond int64) string {
	units, base := []string{"B", "KB", "MB", "GB", "TB"}, int64(1000)
	if bytesPerSecond%1024 == 0 && bytesPerSecond%1000 != 0 {
		units, base = []string{"B", "KiB", "MiB", "GiB", "TiB"}, 1024
	}
	i := 0
	for ; i < len(units)-1 && bytesPerSecond > 0 && bytesPerSecond%base == 0; i++ {
		bytesPerSecond /= base
	}
	return fmt.Sprintf("%d %s/s", bytesPerSecond, units[i])
}

func rate(bytesPerSecond float64) string { return size(int64(bytesPerSecond)) + "/s" }

func versionCommand() *cobra.Command {
	f := &format{}
	c := &cobra.Command{Use: "version", Short: "Show the version of this binary", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			v := version.Get()
			return f.print(c.OutOrStdout(), v, func(w io.Writer) {
				fmt.Fprintf(w, "rhumb %s (%s, %s)\n", v.Short(), v.Go, v.Platform)
			})
		}}
	f.flags(c)
	return c
}

package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// linkFilter says which partitions of links are shown, and in which order.
type linkFilter struct {
	states  []string
	topic   string
	lagging bool
	sort    string
}

// linkStates are the states of links and of their partitions.
var linkStates = []string{"connected", "idle", "flowing", "held", "stalled", "standby", "refused", "disconnected", "paused", "diverged", "closed", "left out", "unused"}

// linkOrders are the orders of partitions and links.
var linkOrders = []string{"name", "lag", "age"}

func (f *linkFilter) flags(a *asking, c *cobra.Command) {
	c.Flags().StringSliceVar(&f.states, "state", nil, "only those in these states, such as refused,stalled")
	c.Flags().StringVar(&f.topic, "topic", "", "only partitions of this topic")
	c.Flags().BoolVar(&f.lagging, "lagging", false, "only partitions with something that is not confirmed")
	c.Flags().StringVar(&f.sort, "sort", "name", "order: name, lag (records not confirmed, most first) or age (of the oldest of them)")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(linkStates, cobra.ShellCompDirectiveNoFileComp))
	offer(c, "topic", a.completeTopic())
	_ = c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(linkOrders, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses what no link can be shown by.
func (f *linkFilter) check(c *cobra.Command) error {
	if !slices.Contains(linkOrders, f.sort) {
		return usage(c, fmt.Errorf("--sort %q is none of name, lag, age", f.sort))
	}
	return knownStates(c, f.states, linkStates)
}

// knownStates refuses a state that nothing is ever in.
func knownStates(c *cobra.Command, asked, known []string) error {
	for _, s := range asked {
		if !slices.Contains(known, s) {
			return usage(c, fmt.Errorf("--state %q is none of %s", s, strings.Join(known, ", ")))
		}
	}
	return nil
}

// apply leaves out what is not asked for, and sorts.
func (f *linkFilter) apply(c *cobra.Command, links []api.Link) ([]api.Link, error) {
	if err := f.check(c); err != nil {
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
	for i := range links {
		l := &links[i]
		l.Partitions = slices.DeleteFunc(l.Partitions, func(p api.LinkPartition) bool {
			return topic != "" && p.Topic != topic || f.lagging && !lags(p) || len(f.states) > 0 && !slices.Contains(f.states, p.State)
		})
		slices.SortStableFunc(l.Partitions, func(a, b api.LinkPartition) int {
			return f.order(a.LagRecords, b.LagRecords, a.LagSeconds, b.LagSeconds)
		})
	}
	links = slices.DeleteFunc(links, func(l api.Link) bool {
		return len(f.states) > 0 && len(l.Partitions) == 0 && !slices.Contains(f.states, l.State)
	})
	slices.SortStableFunc(links, func(a, b api.Link) int {
		return f.order(a.Out.LagRecords, b.Out.LagRecords, a.Out.LagSeconds, b.Out.LagSeconds)
	})
	return links, nil
}

// known refuses a topic that is neither in the region nor in what its links show.
func (f *linkFilter) known(c *cobra.Command, conn *client.Client, links []api.Link) error {
	return knownTopic(c, conn, f.topic, func(full string) bool {
		return slices.ContainsFunc(links, func(l api.Link) bool {
			return slices.ContainsFunc(l.Partitions, func(p api.LinkPartition) bool { return p.Topic == full })
		})
	})
}

// knownTopic refuses a topic that is neither listed nor in the region that is asked: an
// empty list would look as if there were nothing to tell of it. Empty: none is asked for.
func knownTopic(c *cobra.Command, conn *client.Client, text string, listed func(full string) bool) error {
	if text == "" {
		return nil
	}
	name, err := topicNamed(c, text)
	if err != nil || listed(name.String()) {
		return err
	}
	_, err = conn.TopicSettings(c.Context(), name)
	return err
}

// lags reports whether a partition has, or may have, something that is not confirmed.
func lags(p api.LinkPartition) bool { return p.Direction == "out" && p.LagRecords != 0 }

func (f *linkFilter) order(aLag, bLag int64, aAge, bAge float64) int {
	switch f.sort {
	case "lag":
		return cmp.Compare(bLag, aLag)
	case "age":
		return cmp.Compare(bAge, aAge)
	}
	return 0
}

func linkShow(a *asking) *cobra.Command {
	f := &linkFilter{}
	c := &cobra.Command{Use: "show REGION", Short: "Show the link to REGION, partition by partition", Args: exactly(1, "one REGION"),
		Long: "Show the link of the region that is asked to REGION: its connection, what is paused, and each partition's state, lag,\n" +
			"offsets and last error. Lag of what comes in is known to its sender alone: ask there.",
		ValidArgsFunction: a.completePeers(nil),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				links, err := conn.Links(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				if err := f.known(c, conn, links); err != nil {
					return err
				}
				i := slices.IndexFunc(links, func(l api.Link) bool { return string(l.Peer) == args[0] })
				if i < 0 {
					hint := nearest.Hint(args[0], links, func(l *api.Link) string { return string(l.Peer) })
					return rhumb.Errorf(rhumb.KindNotFound, "there is no link to region %q%s: see 'rhumb link list'", args[0], hint)
				}
				one := links[i : i+1 : i+1]
				keep := *f
				keep.states = nil
				if one, err = keep.apply(c, one); err != nil {
					return err
				}
				if len(f.states) > 0 {
					one[0].Partitions = slices.DeleteFunc(one[0].Partitions, func(p api.LinkPartition) bool { return !slices.Contains(f.states, p.State) })
				}
				return a.print(c.OutOrStdout(), one[0], func(w io.Writer) { linkText(w, one[0]) })
			})
		}}
	f.flags(a, c)
	return c
}

// linkText writes one link for people.
func linkText(w io.Writer, l api.Link) {
	now := time.Now()
	row(w, "peer", fmt.Sprintf("%s, number %d", l.Peer, l.PeerNumber))
	row(w, "state", fmt.Sprintf("%s since %s", l.State, when(l.Since)))
	if l.ConnectionSince != l.Since && l.ConnectionSince > 0 {
		row(w, "connected", "since "+when(l.ConnectionSince))
	}
	row(w, "address", l.Address)
	row(w, "version", l.Version)
	row(w, "heard", heardText(l.Heard))
	row(w, "round trip", tripText(l.RTT))
	row(w, "path", pathText(l.Path))
	row(w, "correction", correctionText(l.Path))
	row(w, "out", flowText(l.Out))
	row(w, "in", fmt.Sprintf("%s, %d records, %s since the start", rate(l.In.BytesPerSecond), l.In.Records, size(l.In.Bytes)))
	row(w, "last error", lastError(l.LastError, l.LastErrorAt, l.ConnectionSince, l.State, now))
	for _, p := range l.Pauses {
		what := p.Namespace
		if what == "" {
			what = "every namespace"
		}
		row(w, "paused", fmt.Sprintf("%s, %s, since %s by %s", p.Direction, what, when(p.Since), p.By))
	}
	if len(l.Partitions) == 0 {
		return
	}
	fmt.Fprintln(w)
	row(w, "DIRECTION", "TOPIC", "PARTITION", "ORIGIN", "STATE", "END", "CONFIRMED", "LAG", "BYTES", "AGE", "LAST ERROR")
	for _, p := range l.Partitions {
		row(w, p.Direction, short(p.Topic), p.Partition, fmt.Sprintf("%d:%.8s", p.Region, p.Life), stateText(p), offsetText(p.End, p.End), offsetText(p.Confirmed, p.Confirmed),
			figure(p.LagRecords), figure(p.LagBytes), seconds(p.LagSeconds), partitionError(p, now))
	}
}

// tripText is a round trip in seconds; nothing while there is no connection that could
// measure one. Between regions on one machine it is parts of a millisecond.
func tripText(rtt float64) string {
	if rtt <= 0 {
		return ""
	}
	d := time.Duration(rtt * float64(time.Second))
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// pathText says what is known of the path to a peer.
func pathText(p api.LinkPath) string {
	if p.Connections == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of up to %d connections, %.2f %% loss, takes %s", p.Connections, max(p.ConnectionsMost, 1), 100*p.Loss, rate(p.Goodput))
	if p.ConnectionsLost > 0 {
		text += fmt.Sprintf("; %d others broke since the start", p.ConnectionsLost)
	}
	if p.PaddingBytes > 0 {
		text += fmt.Sprintf("; %s of padding sent", size(p.PaddingBytes))
	}
	return text
}

// correctionText says what forward error correction does on the path to a peer.
func correctionText(p api.LinkPath) string {
	if p.FECMode == "" {
		return ""
	}
	text := p.FEC
	if p.FECMode != p.FEC {
		text += " (" + p.FECMode + ")"
	}
	if p.FECLoss > 0 {
		text += fmt.Sprintf(", the line loses %.2f %%", 100*p.FECLoss)
	}
	if p.FECRecovered+p.FECRecoveredHere > 0 {
		text += fmt.Sprintf("; packets recovered: %d by the peer, %d here; %s of parity sent", p.FECRecovered, p.FECRecoveredHere, size(p.FECParityBytes))
	}
	return text
}

func flowText(f api.Flow) string {
	lag := fmt.Sprintf("lag %s records, %s bytes, %s", atLeast(f, figure(f.LagRecords)), atLeast(f, figure(f.LagBytes)), atLeast(f, seconds(f.LagSeconds)))
	if f.LagUnknown > 0 {
		lag += fmt.Sprintf(" (of %d partitions it is not known yet what the peer has)", f.LagUnknown)
	}
	return fmt.Sprintf("%s, %s; %d records, %s since the start, %d rewinds", rate(f.BytesPerSecond), lag, f.Records, size(f.Bytes), f.Rewinds)
}

// heardText says how long ago a peer was heard of. More than two seconds is long.
func heardText(s float64) string {
	if s < 0 {
		return ""
	}
	return fmt.Sprintf("%.1fs ago", s)
}

// stateText is a partition's state with what makes it slow.
func stateText(p api.LinkPartition) string {
	if p.Limited {
		return p.State + ", rate limited"
	}
	return p.State
}

// partitionError is what is wrong with a partition: what is refused comes first.
func partitionError(p api.LinkPartition, now time.Time) string {
	if r := p.Refused; r != nil {
		return fmt.Sprintf("%s: offset %d is refused, %s: %s", now.Sub(time.UnixMilli(r.Since)).Round(time.Second), r.At, r.Code, r.Reason)
	}
	return lastError(p.LastError, p.LastErrorAt, 0, p.State, now)
}

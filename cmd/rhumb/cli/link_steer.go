package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// steered is what the commands that steer a link share: a peer, and maybe a partition.
type steered struct {
	*asking
	peer      rhumb.RegionName
	topic     string
	partition int32
}

// take reads REGION and, if there is more, TOPIC.
func (s *steered) take(c *cobra.Command, args []string) (err error) {
	if s.peer, err = regionName(c, args[0]); err != nil || len(args) < 2 {
		return err
	}
	name, err := topicNamed(c, args[1])
	if err == nil {
		s.topic = name.String()
	}
	return err
}

func linkPauses(a *asking) []*cobra.Command {
	return []*cobra.Command{
		pauseCommand(a, "pause REGION", "Stop what flows from a region to REGION until it is resumed",
			"Stop the edges from the region that is asked to REGION: all of them, or those of one namespace. Nothing is lost: the\n"+
				"backlog grows, within what retention keeps for others, and goes on where it stopped. It survives restarts, needs no\n"+
				"configuration store, and both regions show it. After a quarter of an hour it is a health problem, too.",
			(*client.Client).PauseLink),
		pauseCommand(a, "resume REGION", "Let go on what was paused",
			"Let go on what 'rhumb link pause' stopped: with --namespace that of one namespace, else all that is paused to REGION.",
			(*client.Client).ResumeLink),
	}
}

func pauseCommand(a *asking, use, short, long string, call func(*client.Client, context.Context, rhumb.RegionName, string) (api.PauseAnswer, error)) *cobra.Command {
	s := &steered{asking: a}
	var namespace string
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: exactly(1, "one REGION"), ValidArgsFunction: a.completePeers(nil),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.take(c, args); err != nil {
				return err
			}
			if namespace != "" {
				if _, err := spaceNamed(c, namespace); err != nil {
					return err
				}
			}
			return a.ask(c, func(conn *client.Client) error {
				done, err := call(conn, c.Context(), s.peer, namespace)
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), done, func(w io.Writer) {
					what, now := "every namespace", "resumed"
					if done.Namespace != "" {
						what = done.Namespace
					}
					if done.Paused {
						now = "paused"
					}
					fmt.Fprintf(w, "The flow of %s to %s is %s. See 'rhumb link show %s'.\n", what, done.Peer, now, done.Peer)
				})
			})
		}}
	c.Flags().StringVar(&namespace, "namespace", "", "only of this namespace, as tenant/namespace")
	offer(c, "namespace", a.complete(0, -1, namespaceNames))
	return c
}

func linkRetry(a *asking) *cobra.Command {
	s := &steered{asking: a}
	c := &cobra.Command{Use: "retry REGION [TOPIC]", Short: "Try at once what waits for another try", Args: between(1, 2, "REGION and at most one TOPIC"),
		Long: "Have tried at once what waits for another try on the way to REGION: the connection, if there is none, and all\n" +
			"partitions, or one of TOPIC. It is tried again by itself as well, ever more rarely.",
		ValidArgsFunction: a.completePeers(a.completeTopics(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.take(c, args); err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				done, err := conn.RetryLink(c.Context(), s.peer, api.RetryRequest{Topic: s.topic, Partition: s.partition})
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), done, func(w io.Writer) { retriedText(w, done, s.partition) })
			})
		}}
	c.Flags().Int32Var(&s.partition, "partition", 0, "which partition of TOPIC")
	return c
}

// retriedText says what was tried again, and what there was to try.
func retriedText(w io.Writer, done api.RetryAnswer, partition int32) {
	what, waited := "1 partition", "waited for another try and is tried at once"
	switch {
	case done.Topic != "":
		what = fmt.Sprintf("partition %d of %s", partition, short(done.Topic))
	case done.Partitions != 1:
		what, waited = fmt.Sprintf("%d partitions", done.Partitions), "waited for another try and are tried at once"
		if done.Waiting > 0 {
			what = fmt.Sprintf("%d of %s", done.Waiting, what)
		}
	}
	switch {
	case done.Dialled:
		fmt.Fprintf(w, "There is no connection to %s: it is dialled at once, and %s will go on over it. See 'rhumb link check %s'.\n", done.Peer, what, done.Peer)
		return
	case done.Partitions == 0:
		fmt.Fprintf(w, "No edge leads from here to %s: there is nothing to try. See 'rhumb topology show'.\n", done.Peer)
		return
	case done.Waiting > 0:
		fmt.Fprintf(w, "On the way to %s %s %s.", done.Peer, what, waited)
	default:
		fmt.Fprintf(w, "On the way to %s there is %s, and nothing waited for another try.", done.Peer, what)
	}
	fmt.Fprintf(w, " See 'rhumb link show %s'.\n", done.Peer)
}

const skipLong = `Leave records out on the way to REGION, for good: those of one partition that REGION has not got and that lie before the
offset --to, with which the flow goes on. The edge must not be paused. It is for a batch that REGION does not take, or
that cannot be read. REGION keeps a gap with the reason 'skipped by operator' and who did it; other regions get
the records as before. Batches are not split: an offset inside one is refused, and the answer names its borders.

The region that is asked leaves out what it published itself. Where REGION gets an origin's records from a relay only, as
in a chain, ask that relay, with --origin: what the relay forwards of that region is left out; --to is an offset there,
as 'rhumb link show' has it. If another path may bring the records, skip them there, too: the answer names it.

Without --yes it says what it would do and changes nothing.`

func linkSkip(a *asking) *cobra.Command {
	s := &steered{asking: a}
	var to, origin string
	var yes bool
	c := &cobra.Command{Use: "skip REGION TOPIC", Short: "Leave records out on the way to REGION, on record", Long: skipLong,
		Args: exactly(2, "REGION and TOPIC"), ValidArgsFunction: a.completePeers(a.completeTopics(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.take(c, args); err != nil {
				return err
			}
			at, err := strconv.ParseInt(to, 10, 64)
			if err != nil || at < 0 {
				return usage(c, fmt.Errorf("--to %q is no offset: give the one to go on with", to))
			}
			if origin != "" {
				if _, err := regionName(c, origin); err != nil {
					return err
				}
			}
			return a.ask(c, func(conn *client.Client) error {
				return s.skip(c, conn, api.SkipRequest{Origin: rhumb.RegionName(origin), To: rhumb.Offset(at), DryRun: !yes})
			})
		}}
	c.Flags().StringVar(&to, "to", "", "offset to go on with; required")
	c.Flags().Int32Var(&s.partition, "partition", 0, "which partition")
	c.Flags().StringVar(&origin, "origin", "", "region that published them; default: the one that is asked")
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	offer(c, "origin", a.completeRegions(1, nil))
	return c
}

func (s *steered) skip(c *cobra.Command, conn *client.Client, req api.SkipRequest) error {
	req.Topic, req.Partition = s.topic, s.partition
	to := req.To
	done, err := conn.SkipOnLink(c.Context(), s.peer, req)
	if err != nil {
		return err
	}
	err = s.print(c.OutOrStdout(), done, func(w io.Writer) {
		n := int64(done.To - done.From + 1)
		switch {
		case n <= 0:
			fmt.Fprintf(w, "%s has all of partition %d of %s before offset %d: nothing is left to skip.\n", done.Peer, done.Partition, short(done.Topic), to)
		case done.Done:
			fmt.Fprintf(w, "%s has stored a gap for offsets %d to %d of partition %d of %s: at most %d records do not come to it. See 'rhumb gap list' there.\n",
				done.Peer, done.From, done.To, done.Partition, short(done.Topic), n)
		default:
			fmt.Fprintf(w, "Offsets %d to %d of partition %d of %s, at most %d records, would never come to %s.\n", done.From, done.To, done.Partition, short(done.Topic), n, done.Peer)
		}
	})
	if err != nil || done.Done || done.From > done.To {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "rhumb: nothing was changed: say --yes to do it")
	return &toldError{exitFailed}
}

func linkCheck(a *asking) *cobra.Command {
	s := &steered{asking: a}
	return &cobra.Command{Use: "check REGION", Short: "Look at all that the link to REGION needs, and say what to do", Args: exactly(1, "one REGION"),
		Long: "From the region that is asked, look at all that its link to REGION needs: each geo address is resolved and dialled\n" +
			"anew, beside the link; both certificates, the clocks, as measured over the link, and the versions.\n" +
			"Exit code 0: all is well; 1: something is not, and what to do is said; 2: the region that was asked cannot be reached.",
		ValidArgsFunction: a.completePeers(nil),
		RunE: func(c *cobra.Command, args []string) error {
			if err := s.take(c, args); err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				found, err := conn.CheckLink(c.Context(), s.peer)
				if err != nil {
					return err
				}
				err = a.print(c.OutOrStdout(), found, func(w io.Writer) { checkTable(w, found) })
				if err == nil && !found.OK {
					return &toldError{exitFailed}
				}
				return err
			})
		}}
}

func checkTable(w io.Writer, found api.LinkChecks) {
	row(w, "CHECK", "ADDRESS", "RESULT", "FOUND")
	for _, c := range found.Checks {
		word := "ok"
		if !c.OK {
			word = "FAILS"
		}
		row(w, c.Name, c.Target, word, c.Detail)
	}
	for _, c := range found.Checks {
		if !c.OK {
			fmt.Fprintf(w, "%s: %s\n", c.Name, c.Next)
		}
	}
}

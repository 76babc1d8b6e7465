package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// pollPause is between two looks of a command that waits.
const pollPause = 500 * time.Millisecond

const drainLong = `Have a region take no producers any more. Consumers go on, records of other regions go on coming, and what was
published here goes on to every region to which an edge leads. When all of it is confirmed there, the region is
*drained*, and can be removed.

The command says what is left. With --wait it comes back when nothing is (exit code 0), or when the time is over (1).
Exit code 2: the region cannot be asked. Records in namespaces that flow nowhere are told as well: they are in this
region's data directory only, and keep it from being drained.

--undo lets producers in again.`

// drainAnswer is what drain gives with -o json.
type drainAnswer struct {
	Region rhumb.RegionName        `json:"region"`
	Number rhumb.RegionNumber      `json:"number"`
	State  configstore.RegionState `json:"state"`
	Drain  *api.Drain              `json:"drain,omitzero"` // absent if the region takes producers
}

func regionDrain(w *regionWork) *cobra.Command {
	var undo bool
	var wait time.Duration
	c := &cobra.Command{Use: "drain NAME", Short: "Have a region take no producers any more, and send what it has", Long: drainLong, Args: exactly(1, "one NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			if err := notNegative(c, "wait", wait); err != nil {
				return err
			}
			if undo && wait > 0 {
				return usage(c, errors.New("--undo waits for nothing: leave --wait out"))
			}
			var done api.Member
			err = w.ask(c, func(conn *client.Client) error {
				done, err = conn.DrainRegion(c.Context(), name, undo)
				return err
			})
			if err != nil {
				return err
			}
			if undo {
				return w.print(c.OutOrStdout(), drainAnswer{Region: name, Number: done.Number, State: stateOf(done.State)}, func(out io.Writer) {
					fmt.Fprintf(out, "region %s takes producers again\n", name)
				})
			}
			return w.awaitDrained(c, name, wait, w.drainState)
		}}
	c.Flags().BoolVar(&undo, "undo", false, "let producers in again")
	c.Flags().DurationVar(&wait, "wait", 0, "wait this long until the region is drained")
	return c
}

// awaitDrained looks until the region is drained or the time is over, and tells. A
// look has its own time, so that the last one, too, says what is left.
func (w *regionWork) awaitDrained(c *cobra.Command, name rhumb.RegionName, wait time.Duration,
	look func(context.Context, rhumb.RegionName) (drainAnswer, error)) error {
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	begin := time.Now()
	for {
		ctx, cancel := context.WithTimeout(c.Context(), regionWait)
		answer, err := look(ctx, name)
		cancel()
		drained := err == nil && answer.State == configstore.RegionDrained
		over := time.Since(begin) >= wait
		// The region hears of it within moments: until then it says that it is active.
		heard := err != nil || answer.Drain != nil || time.Since(begin) >= regionWait
		if drained || over && heard {
			if err != nil {
				return rhumb.Errorf(rhumb.KindUnavailable, "region %s is told to drain, and what it has still to send is not known: %w", name, err)
			}
			if err := w.print(c.OutOrStdout(), answer, func(out io.Writer) { drainTable(out, answer) }); err != nil {
				return err
			}
			if !drained && wait > 0 {
				return &toldError{exitFailed}
			}
			return nil
		}
		select {
		case <-c.Context().Done():
			return c.Context().Err()
		case <-tick.C:
		}
	}
}

// drainState asks the region itself, and the mesh's documents.
func (w *regionWork) drainState(ctx context.Context, name rhumb.RegionName) (drainAnswer, error) {
	w.env()
	conn, err := w.byName(ctx, string(name))
	if err != nil {
		return drainAnswer{}, err
	}
	defer conn.Close()
	info, err := conn.Region(ctx)
	if err == nil {
		err = whole(conn)
	}
	if err != nil {
		return drainAnswer{}, err
	}
	doc, err := conn.Member(ctx, name)
	return drainAnswer{Region: name, Number: doc.Number, State: stateOf(doc.State), Drain: info.Drain}, err
}

func drainTable(out io.Writer, a drainAnswer) {
	fmt.Fprintf(out, "region %s, number %d: %s\n", a.Region, a.Number, a.State)
	d := a.Drain
	switch {
	case a.State == configstore.RegionDrained:
		fmt.Fprintln(out, "it takes no producers, and every record that was published there is confirmed wherever an edge leads")
		fmt.Fprintf(out, "next: take it out of namespaces and tenants, then 'rhumb region remove %s'\n", a.Region)
		return
	case d == nil:
		fmt.Fprintln(out, "it has not heard of it yet")
		return
	}
	if d.Producing > 0 {
		fmt.Fprintf(out, "%d batches of producers are on their way into its log\n", d.Producing)
	}
	if len(d.Behind) > 0 {
		row(out, "NOT CONFIRMED BY", "LINK", "PARTITIONS", "RECORDS", "BYTES", "LAST ERROR")
		for _, p := range d.Behind {
			row(out, p.Peer, p.State, p.Partitions, p.Records, size(p.Bytes), p.LastError)
		}
	}
	if len(d.Alone) > 0 {
		var names []string
		for _, t := range d.Alone {
			names = append(names, short(t))
		}
		fmt.Fprintf(out, "no edge carries what was published in %s, or each region to which one leads has deleted the topic: it is in this region's data directory only; let it flow somewhere, delete it here, or remove the region with --force\n",
			strings.Join(names, ", "))
	}
	if d.Producing == 0 && len(d.Behind)+len(d.Alone) == 0 {
		fmt.Fprintln(out, "nothing is left to send; it tells the mesh so within moments")
	}
}

const removeLong = `Take a region out of the mesh. Links to it end on both sides, and its number is never given again. Nothing is deleted:
what other regions got of it they keep and serve, and its own data directory stays as it is. Its process refuses
producers from then on, says so in its health, and does not start again.

It is refused while the region is not drained, and while namespaces or tenants name it. --force removes it all the same,
for a region that is gone for good: edges that name it end, and what it had published last and no other region has is
lost. Its numbers count as *gone* from then on: nobody waits for records of it any more.

The name may come back with 'rhumb region register', under a new number and with an empty data directory.`

func regionRemove(w *regionWork) *cobra.Command {
	var force bool
	c := &cobra.Command{Use: "remove NAME", Short: "Take a region out of the mesh; its data stays", Long: removeLong, Args: exactly(1, "one NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			return w.ask(c, func(conn *client.Client) error {
				was, err := conn.RemoveRegion(c.Context(), name, force)
				if err != nil {
					return err
				}
				was.Region.Name = name // which is in the key
				warnRunning(c, was.Region, "it refuses producers from now on; stop it, it does not start again")
				return w.print(c.OutOrStdout(), was, func(out io.Writer) {
					fmt.Fprintf(out, "removed region %s; number %d is retired\n", name, was.Number)
					if was.Forced {
						fmt.Fprintln(out, "it had not been drained: what it had published last and no other region has is lost to the mesh")
					}
					if len(was.NamedBy) > 0 {
						fmt.Fprintf(out, "still named by %s: without effect until the name comes back; take it out there\n", strings.Join(was.NamedBy, ", "))
					}
				})
			})
		}}
	c.Flags().BoolVar(&force, "force", false, "also while it is not drained, or named by namespaces or tenants")
	return c
}

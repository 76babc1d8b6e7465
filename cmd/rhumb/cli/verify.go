package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/cmd/rhumb/cli/verify"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const verifyLong = `Compare what two regions hold of the same topics, record by record and per origin, while traffic goes on.

A and B are region names or URLs of admin APIs; a region that is not known yet is waited for, up to 5 s. Without topics, all topics are compared whose namespace flows
between A and B, or to both from a third region. Watermarks are taken first: records that a region does not account for
yet are late, which is shown and is no difference; --wait waits for them. Records that no edge of the topology brings
to a region, over no relay either, are not compared, which is said. What retention dropped, what lies before
an edge's start and what a gap record covers is counted and explained.

Where edges go one way only, as in a fan-in, name a source and the destination: 0 says that the destination holds what
the source published, and of the source's own copy nothing more is asked. The order of the two means nothing. Two
sources of a fan-in hold nothing in common: that is 2, also for topics that are named.

A region that was rebuilt after its disk was lost gets back what the others have of its earlier lives, where an edge
leads from them to it. Until all of it is there, and for good where none leads or where a region was restored from an
old copy, the result is "incomplete", with the number of records (-o json: "alone"), until retention has dropped
them. What could be compared is equal then; it is no exit 0, since the two do not hold the same. Earlier lives of a
third region count so only where edges bring its records to the one that lacks them; elsewhere they are not compared.

Exit codes: 0 equal; 1 they differ, with what is missing, extra, out of order or different: that must never be; 2 not
proven: a region cannot be reached, something that should be in both could not be compared, or one has records of
earlier lives that no link brings to the other. Where retention dropped what was being compared, partition and origin
are named: run it again.`

func verifyCommand() *cobra.Command {
	t, f := &target{}, &format{}
	var wait time.Duration
	c := &cobra.Command{Use: "verify A B [TOPIC…]", Short: "Prove that two regions hold the same records", Long: verifyLong,
		Args: between(2, -1, "two regions, and topics"), ValidArgsFunction: t.completeRegions(2, t.completeTopics(2)),
		RunE: func(c *cobra.Command, args []string) error {
			o := verify.Options{Wait: wait}
			if err := notNegative(c, "wait", wait); err != nil {
				return err
			}
			for _, arg := range args[2:] {
				name, err := topicNamed(c, arg)
				if err != nil {
					return err
				}
				o.Topics = append(o.Topics, name)
			}
			var asked [2]*client.Client
			for i, side := range []*verify.Source{&o.A, &o.B} {
				conn, err := t.await(c.Context(), args[i])
				if err != nil {
					return unknown(c, err)
				}
				defer conn.Close()
				*side, asked[i] = verify.Client(conn), conn
			}
			var thirds []*client.Client
			defer func() {
				for _, conn := range thirds {
					conn.Close()
				}
			}()
			o.Third = func(ctx context.Context, name rhumb.RegionName) (verify.Source, error) {
				conn, err := t.byName(ctx, string(name))
				if err != nil {
					return nil, err
				}
				thirds = append(thirds, conn)
				return verify.Client(conn), nil
			}
			report, err := verify.Run(c.Context(), o)
			for _, conn := range asked {
				err = cmp.Or(err, whole(conn)) // "all topics" would be those that are shown
			}
			if err != nil {
				return unknown(c, err)
			}
			if err := f.print(c.OutOrStdout(), report, func(w io.Writer) { reportTable(w, report) }); err != nil {
				return err
			}
			return verdict(report.State)
		}}
	t.flags(c)
	f.flags(c)
	c.Flags().DurationVar(&wait, "wait", 0, "first wait this long until each region has what the other had at the start")
	return c
}

// unknown ends verify where nothing is known, whatever kind of error it was.
func unknown(c *cobra.Command, err error) error {
	fmt.Fprintf(c.ErrOrStderr(), "rhumb: cannot tell: %v\n", err)
	return &toldError{exitUnknown}
}

func verdict(s verify.State) error {
	switch s {
	case verify.Equal:
		return nil
	case verify.Differs:
		return &toldError{exitFailed}
	}
	return &toldError{exitUnknown}
}

func reportTable(w io.Writer, r verify.Report) {
	if len(r.Origins) > 0 {
		row(w, "TOPIC", "PARTITION", "ORIGIN", "RESULT", "COMPARED", "EQUAL RECORDS", "LATE")
		for _, o := range r.Origins {
			compared := o.Compared.String()
			if o.Compared.To < o.Compared.From {
				compared = "nothing"
			}
			row(w, short(o.Topic), o.Partition, fmt.Sprintf("%s:%.8s", regionText(o.Name, o.Region), o.Life), o.State, compared,
				o.Records, lateText(o))
		}
		fmt.Fprintln(w)
	}
	for _, o := range r.Origins {
		originDetails(w, o)
	}
	for _, p := range r.Problems {
		fmt.Fprintln(w, strings.Join(strings.Fields("cannot tell: "+p.Topic+" "+p.Message), " "))
	}
	words := map[verify.State]string{verify.Equal: "equal", verify.Incomplete: "equal", verify.Differs: "different", verify.Unknown: "cannot tell: not all could be compared"}
	word := words[r.State]
	if text := overtakenText(r); r.State == verify.Unknown && text != "" {
		word = "cannot tell: " + text
	}
	if r.State != verify.Differs {
		word += aloneText(r)
	}
	late, uncarried := countsOf(r)
	compared, apart := livesOf(r)
	switch {
	case r.State == verify.Equal && compared == 0 && apart > 0:
		word = "nothing is compared"
	case r.State == verify.Equal && late+uncarried > 0:
		word = "equal as far as both have it"
	}
	if late > 0 && r.State != verify.Differs {
		word += fmt.Sprintf("; %d records are still on their way", late)
	}
	if uncarried > 0 && r.State != verify.Differs {
		word += fmt.Sprintf("; %d records are not compared: no edge carries them", uncarried)
	}
	if apart > 0 && r.State != verify.Differs {
		word += fmt.Sprintf("; %d origin lives are not compared: no edge carries them from one to the other", apart)
	}
	fmt.Fprintf(w, "%s and %s: %s (%d topics, %d equal records)\n", r.A, r.B, word, r.Topics, r.Records)
}

// shownOvertaken is how many origins the last line of the table names.
const shownOvertaken = 5

// overtakenText names what retention dropped while it was compared, if that is all that
// could not be compared.
func overtakenText(r verify.Report) string {
	var names []string
	for _, o := range r.Origins {
		switch {
		case o.Overtaken:
			names = append(names, fmt.Sprintf("%s partition %d of %s:%.8s", short(o.Topic), o.Partition, regionText(o.Name, o.Region), o.Life))
		case o.State == verify.Unknown:
			return ""
		}
	}
	if len(names) == 0 || len(r.Problems) > 0 {
		return ""
	}
	if n := len(names); n > shownOvertaken {
		names = append(names[:shownOvertaken], fmt.Sprintf("%d more", n-shownOvertaken))
	}
	return "retention overtook the comparison of " + strings.Join(names, ", ") + ": run it again"
}

// aloneText tells of records that no link brings to the other region.
func aloneText(r verify.Report) string {
	var exceptions []string
	earlier, removed := map[string]int64{}, map[string]int64{}
	for _, o := range r.Origins {
		of := earlier
		if o.Name == "" {
			of = removed
		}
		for region, n := range o.Alone {
			of[region] += n
		}
	}
	tell := func(all map[string]int64, what string) {
		for _, region := range sortedKeys(all) {
			other := r.A
			if region == r.A {
				other = r.B
			}
			exceptions = append(exceptions, fmt.Sprintf("%d records of %s that %s has and no link brings to %s", all[region], what, region, other))
		}
	}
	tell(earlier, "earlier lives")
	tell(removed, "removed regions")
	if len(exceptions) == 0 {
		return ""
	}
	return ", but for " + strings.Join(exceptions, ", and for ")
}

func lateText(o verify.Origin) string {
	var all []string
	for _, region := range sortedKeys(o.Late) {
		all = append(all, fmt.Sprintf("%s by %d", region, o.Late[region]))
	}
	return strings.Join(all, ", ")
}

func originDetails(w io.Writer, o verify.Origin) {
	where := fmt.Sprintf("%s partition %d, origin %s:%.8s", short(o.Topic), o.Partition, regionText(o.Name, o.Region), o.Life)
	for _, f := range o.Findings {
		what := fmt.Sprintf("%s in %s: %d records at %s", f.Kind, f.Region, f.Records, rangesText(f.Ranges, f.More))
		if f.Records == 0 {
			what = fmt.Sprintf("%s in %s", f.Kind, f.Region)
		}
		if f.Detail != "" {
			what += " (" + f.Detail + ")"
		}
		fmt.Fprintf(w, "%s: %s\n", where, what)
	}
	for _, e := range o.Explained {
		fmt.Fprintf(w, "%s: not in %s, explained: %d records at %s: %s\n", where, e.Region, e.Records, rangesText(e.Ranges, e.More), e.Reason)
	}
	for _, region := range sortedKeys(o.Alone) {
		fmt.Fprintf(w, "%s: only in %s: %d records\n", where, region, o.Alone[region])
	}
	if o.Note != "" {
		fmt.Fprintf(w, "%s: %s\n", where, o.Note)
	}
}

// shownRanges is how many ranges a line of the table shows; -o json has more.
const shownRanges = 10

func rangesText(ranges []verify.Range, more bool) string {
	var all []string
	for i, r := range ranges {
		if i == shownRanges {
			more = true
			break
		}
		all = append(all, r.String())
	}
	if more {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}

// livesOf gives how many origin lives are compared, and how many no edge carries.
func livesOf(r verify.Report) (compared, apart int) {
	for _, o := range r.Origins {
		switch {
		case o.NoEdgeTo != "":
			apart++
		case o.State != verify.Skipped:
			compared++
		}
	}
	return compared, apart
}

// countsOf gives how many records one of the regions does not account for yet, and
// how many no edge brings to it.
func countsOf(r verify.Report) (late, uncarried int64) {
	for _, o := range r.Origins {
		for _, n := range o.Late {
			late += n
		}
		for _, n := range o.Uncarried {
			uncarried += n
		}
	}
	return late, uncarried
}

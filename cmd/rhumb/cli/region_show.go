package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const showLong = `Show a region's document, and how far it is behind each region from which an edge leads to it. The figures are those of the
sources: what the region has not confirmed to them. A region is *ready* (/readyz) as soon as it serves; that says nothing of
whether it has caught up.

With --wait it comes back when everything that the sources had when the command began is confirmed: with exit code 0, or,
when the time is over, with 1 if it is still behind and 2 if a source cannot be asked.`

// regionAnswer is what show gives with -o json.
type regionAnswer struct {
	api.Member
	// CaughtUp: nothing that the sources have is unconfirmed; with --wait, nothing that
	// they had when the command began.
	CaughtUp bool             `json:"caught_up"`
	Sources  []sourceProgress `json:"sources"`
	Drain    *api.Drain       `json:"drain,omitzero"` // of a region that takes no producers and answers
	// Problems are what the region, if it answers, says is not right between it and the
	// mesh's documents.
	Problems []api.Problem `json:"problems,omitempty"`
}

// sourceProgress is how far a region is behind one of its sources. -1: not known.
type sourceProgress struct {
	Region         rhumb.RegionName `json:"region"`
	State          string           `json:"state"`             // of the source's link; empty if it cannot be asked
	Partitions     int              `json:"partitions_behind"` // that are not confirmed to their ends
	Records        int64            `json:"records,string"`    // at most
	Bytes          int64            `json:"bytes,string"`      // about
	Seconds        float64          `json:"seconds"`           // age of the oldest record that is not confirmed
	BytesPerSecond float64          `json:"bytes_per_second"`  // now
	Estimate       float64          `json:"estimate_seconds"`  // until it has caught up, at this rate
	Error          string           `json:"error,omitempty"`   // why it cannot be asked, or the link's last error
	// ErrorAt is when the link's last error happened, and Since when the link came to
	// its state, in ms since 1970; 0: not known, or it cannot be asked.
	ErrorAt   int64 `json:"error_at,string"`
	Since     int64 `json:"since,string"`
	number    rhumb.RegionNumber
	ends      map[endKey]rhumb.Offset
	confirmed map[endKey]rhumb.Offset
	standby   []endKey // that it does not send, since the region takes them from another source
}

// endKey names an origin life of a partition that a source sends.
type endKey struct {
	topic     string
	partition int32
	region    rhumb.RegionNumber
	life      rhumb.Life
}

func regionShow(w *regionWork) *cobra.Command {
	var wait time.Duration
	c := &cobra.Command{Use: "show NAME", Short: "Show a region, and how far it is behind each of its sources", Long: showLong, Args: exactly(1, "one NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			if err := notNegative(c, "wait", wait); err != nil {
				return err
			}
			answer, err := w.progress(c.Context(), name)
			if err != nil {
				return err
			}
			if wait > 0 && !answer.CaughtUp {
				if answer, err = w.awaitCaughtUp(c, answer, wait); err != nil {
					return err
				}
			}
			if err := w.print(c.OutOrStdout(), answer, func(out io.Writer) { regionTable(out, answer) }); err != nil || wait == 0 || answer.CaughtUp {
				return err
			}
			if slices.ContainsFunc(answer.Sources, func(s sourceProgress) bool { return s.State == "" }) {
				return &toldError{exitUnknown}
			}
			return &toldError{exitFailed}
		}}
	c.Flags().DurationVar(&wait, "wait", 0, "wait this long until the region has caught up")
	return c
}

// progress asks each source how far the region is.
func (w *regionWork) progress(ctx context.Context, name rhumb.RegionName) (a regionAnswer, err error) {
	conn, err := w.connect(ctx)
	if err != nil {
		return a, err
	}
	defer conn.Close()
	if a.Member, err = conn.Member(ctx, name); err != nil {
		return a, err
	}
	a.State = stateOf(a.State)
	edges, err := conn.Edges(ctx)
	if err != nil {
		return a, err
	}
	entries, err := conn.Regions(ctx)
	if err != nil {
		return a, err
	}
	a.Sources, a.CaughtUp = []sourceProgress{}, !a.JoinedAt.IsZero()
	for _, e := range entries {
		if e.Name == name && !a.JoinedAt.IsZero() {
			w.itself(ctx, e, &a)
		}
		if !slices.ContainsFunc(edges, func(x api.Edge) bool { return x.From == e.Name && x.To == name }) {
			continue
		}
		s := w.source(ctx, e, name)
		a.CaughtUp = a.CaughtUp && s.State != "" && s.Partitions == 0 && !apart(s.State)
		a.Sources = append(a.Sources, s)
	}
	a.CaughtUp = a.CaughtUp && brought(a.Sources)
	return a, nil
}

// itself asks the region what it says of itself, and leaves it if it does not answer.
func (w *regionWork) itself(ctx context.Context, e api.RegionEntry, a *regionAnswer) {
	info, err := w.info(ctx, e)
	if err != nil {
		return
	}
	if a.State == configstore.RegionDraining || a.State == configstore.RegionDrained {
		a.Drain = info.Drain
	}
	for _, p := range info.Health.Problems {
		if p.Part == "registration" || p.Part == "configuration store" {
			a.Problems = append(a.Problems, p)
		}
	}
}

// brought reports whether each life that a source leaves to another one is sent by one.
// Sources are asked one after the other: meanwhile the region may change from one to
// the next, and each would say that the other one sends it.
func brought(sources []sourceProgress) bool {
	for _, s := range sources {
		for _, key := range s.standby {
			if !slices.ContainsFunc(sources, func(o sourceProgress) bool { _, sends := o.confirmed[key]; return sends }) {
				return false
			}
		}
	}
	return true
}

// apart reports whether a link is not there, so that what it says may be old.
func apart(state string) bool {
	return slices.Contains([]string{"", "disconnected", "refused", "unused"}, state)
}

// source asks one region about its link to another one.
func (w *regionWork) source(ctx context.Context, from api.RegionEntry, to rhumb.RegionName) sourceProgress {
	s := sourceProgress{Region: from.Name, number: from.Number, Records: -1, Bytes: -1, Seconds: -1, Estimate: -1,
		ends: map[endKey]rhumb.Offset{}, confirmed: map[endKey]rhumb.Offset{}}
	links, err := w.linksOf(ctx, from)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	i := slices.IndexFunc(links, func(l api.Link) bool { return l.Peer == to })
	if i < 0 {
		s.Error = "it has no link to the region: it does not know it yet, or knows that it was removed"
		return s
	}
	s.take(&links[i])
	return s
}

// take sums up what a source's link says.
func (s *sourceProgress) take(l *api.Link) {
	s.State, s.Error, s.ErrorAt, s.Since = l.State, l.LastError, l.LastErrorAt, l.ConnectionSince
	s.BytesPerSecond = l.Out.BytesPerSecond
	s.Records, s.Bytes, s.Seconds = l.Out.LagRecords, l.Out.LagBytes, l.Out.LagSeconds
	if l.Out.LagUnknown > 0 {
		s.Records, s.Bytes, s.Seconds = -1, -1, -1 // a bound is no figure to wait for
	}
	if len(l.Partitions) > 0 {
		s.Records, s.Bytes, s.Seconds = 0, 0, 0 // the link's own sums may be a moment older than those
	}
	for _, p := range l.Partitions {
		key := endKey{p.Topic, p.Partition, p.Region, p.Life}
		switch {
		case p.Direction != "out", p.State == "closed", p.State == "left out": // nothing is owed of it
			continue
		case p.State == "standby": // another source tells of it
			s.standby = append(s.standby, key)
			continue
		}
		s.ends[key], s.confirmed[key] = p.End, p.Confirmed
		if p.LagRecords != 0 || p.Confirmed < p.End {
			s.Partitions++
		}
		s.Records, s.Bytes, s.Seconds = plus(s.Records, p.LagRecords), plus(s.Bytes, p.LagBytes), older(s.Seconds, p.LagSeconds)
	}
	switch {
	case s.Partitions == 0:
		s.Estimate = 0
	case s.BytesPerSecond > 0 && s.Bytes >= 0:
		s.Estimate = float64(s.Bytes) / s.BytesPerSecond
	}
}

// plus adds figures of which one may not be known: then the sum is not.
func plus(sum, n int64) int64 {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

// older gives the higher age, or -1 if one is not known.
func older(a, b float64) float64 {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

func (w *regionWork) linksOf(ctx context.Context, r api.RegionEntry) ([]api.Link, error) {
	conn, err := w.firstThatAnswers(ctx, r)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	links, err := conn.Links(ctx)
	if err == nil {
		err = whole(conn) // nothing is behind of what is not shown
	}
	return links, err
}

// awaitCaughtUp looks until what the sources had at first is confirmed, or the time is
// over. A source that could not be asked at first gives its ends when it can.
func (w *regionWork) awaitCaughtUp(c *cobra.Command, first regionAnswer, wait time.Duration) (regionAnswer, error) {
	ctx, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	goals := map[rhumb.RegionName]map[endKey]rhumb.Offset{}
	last := first
	for {
		for _, s := range last.Sources {
			if goals[s.Region] == nil && !apart(s.State) {
				goals[s.Region] = maps.Clone(s.ends)
			}
			s.returns(goals[s.Region])
		}
		if last.CaughtUp = reached(last, goals); last.CaughtUp {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, c.Context().Err()
		case <-tick.C:
		}
		now, err := w.progress(ctx, first.Name)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			last = now
		case rhumb.KindOf(err) == rhumb.KindNotFound:
			return last, err // it was removed meanwhile
		case errors.Is(err, context.Canceled):
			return last, err
		}
	}
}

// returns adds to a goal what a source has come to send of lives that others published,
// or that the region did before it was rebuilt: the source had them, and offers them
// when it has heard of the rebuild, or when the region takes them from it.
func (s *sourceProgress) returns(goal map[endKey]rhumb.Offset) {
	for key, end := range s.ends {
		if _, there := goal[key]; !there && goal != nil && key.region != s.number {
			goal[key] = end
		}
	}
}

// reached reports whether each source knows everything of its goal as confirmed. What
// it does not send any more, since a topic was deleted, is no part of it.
func reached(a regionAnswer, goals map[rhumb.RegionName]map[endKey]rhumb.Offset) bool {
	for _, s := range a.Sources {
		goal := goals[s.Region]
		if goal == nil || apart(s.State) {
			return false
		}
		for key, end := range goal {
			if confirmed, there := s.confirmed[key]; there && confirmed < end {
				return false
			}
		}
	}
	return !a.JoinedAt.IsZero() && brought(a.Sources)
}

func regionTable(out io.Writer, a regionAnswer) {
	fmt.Fprintf(out, "region %s, number %d: %s, joined %s, version %d by %s\n", a.Name, a.Number, a.State, joinedText(a.JoinedAt), a.Version, a.Who())
	pinned := ""
	if a.Pinned {
		pinned = " (pinned)"
	}
	fmt.Fprintf(out, "geo %v, kafka %v, admin %v%s\n", a.Geo, a.Addresses[configstore.ProtocolKafka], a.Addresses[configstore.ProtocolAdmin], pinned)
	fmt.Fprintf(out, "data directory %s, rebuilt %d times\n", dataText(a.DataUUID), a.Rebuilds)
	for _, f := range a.Former {
		fmt.Fprintf(out, "number %d until %s\n", f.Number, f.RemovedAt.UTC().Format(time.RFC3339))
	}
	for _, p := range a.Problems {
		fmt.Fprintf(out, "%s: %s: %s\n", p.Part, p.State, p.Message)
	}
	if len(a.Sources) == 0 {
		fmt.Fprintln(out, "no edge leads to it")
	} else {
		fmt.Fprintln(out)
		row(out, "SOURCE", "LINK", "PARTITIONS BEHIND", "RECORDS", "BYTES", "AGE", "RATE", "CAUGHT UP IN", "LAST ERROR")
		for _, s := range a.Sources {
			row(out, s.Region, orUnknown(s.State), s.Partitions, figure(s.Records), sizeOf(s.Bytes), seconds(s.Seconds), rate(s.BytesPerSecond), estimate(s), lastError(s.Error, s.ErrorAt, s.Since, s.State, time.Now()))
		}
	}
	if a.Drain != nil {
		fmt.Fprintln(out)
		drainTable(out, drainAnswer{Region: a.Name, Number: a.Number, State: a.State, Drain: a.Drain})
	}
}

// sizeOf writes bytes that may not be known.
func sizeOf(n int64) string {
	if n < 0 {
		return "?"
	}
	return size(n)
}

func orUnknown(state string) string {
	if state == "" {
		return "?"
	}
	return state
}

func estimate(s sourceProgress) string {
	switch {
	case s.State == "" || s.Estimate < 0:
		return "?"
	case s.Partitions == 0:
		return "-"
	}
	return (time.Duration(s.Estimate) * time.Second).String()
}

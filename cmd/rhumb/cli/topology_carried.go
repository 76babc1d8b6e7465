package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// originFigures is the share of what one region published.
// Where a region was rebuilt, what it published before stands by itself.
type originFigures struct {
	Number  rhumb.RegionNumber `json:"number"`
	Region  rhumb.RegionName   `json:"region,omitempty"` // empty: it was removed
	Earlier bool               `json:"earlier,omitempty"`
	Records int64              `json:"records,string"`
}

// brings reports whether an edge carries what it did not carry as it was.
func brings(e, before *configstore.PlanEdge) bool {
	return !before.Forward && (e.Forward || e.Gone && !before.Gone)
}

// carries reports whether an edge takes an origin life from one region to another: a
// region's own lives, also those of before it was rebuilt, always; others' as the edge
// says. What the destination has of its own it accounts for, so only its earlier lives
// are left of that; one that does not answer is taken to have them.
func carries(e *configstore.PlanEdge, o *api.Origin, from, to *regionFigures) bool {
	switch o.Region {
	case from.number:
		return true
	case to.number:
		return to.err == nil
	}
	return e.Forward || e.Gone && o.RegionName == ""
}

// due is what an edge may send of one life that a log of its source holds.
type due struct {
	topic     rhumb.Topic
	partition int
	log       *api.Partition
	origin    *api.Origin
	above     rhumb.Offset // of the origin: the destination accounts for it up to here
	records   int64        // at most
}

// toSend counts what the source holds, the edge carries and the destination does not
// account for; of an edge that was there before, what it did not carry then.
func (e *edgeFigures) toSend(ctx context.Context, from, to *regionFigures, before *configstore.PlanEdge) {
	if from.err != nil {
		e.Known, e.Error = false, from.err.Error()
		return
	}
	var all []due
	read, logs := int64(0), map[*api.Partition]int64{} // records of each, as they are counted
	for t, detail := range from.topics {
		if !e.concerns(t, from.own) {
			continue
		}
		for i := range detail.Logs {
			log := &detail.Logs[i]
			for k := range log.Origins {
				o := &log.Origins[k]
				if !carries(&e.Edge, o, from, to) || before != nil && carries(before, o, from, to) {
					continue
				}
				above := watermarkIn(to.topics[t], i, o)
				if n := sendable(log, k, above); n > 0 {
					all = append(all, due{t, i, log, o, above, n})
					read += log.Bytes
				}
			}
		}
	}
	e.Exact = read <= figuresRead && countAll(ctx, from.conn, all) == nil
	topics := map[rhumb.Topic][]due{}
	for _, d := range all {
		topics[d.topic] = append(topics[d.topic], d)
		logs[d.log] += d.records
		e.addOrigin(d.origin, from, to, d.records)
	}
	for t, dues := range topics {
		var records, bytes int64
		for _, d := range dues {
			held := int64(d.log.End - d.log.LogStart)
			n := min(logs[d.log], held) // several lives share the offsets of one log
			logs[d.log] = 0
			records, bytes = records+n, bytes+int64(float64(d.log.Bytes)*float64(n)/float64(held))
		}
		e.add(t, records, bytes)
	}
}

// countAll finds out how many records each of them is. With an error, none changes.
func countAll(ctx context.Context, conn *client.Client, all []due) error {
	counts := make([]int64, len(all))
	for i := range all {
		n, err := all[i].count(ctx, conn)
		if err != nil {
			return err
		}
		counts[i] = n
	}
	for i := range all {
		all[i].records = counts[i]
	}
	return nil
}

// count counts the records that the source holds.
func (d *due) count(ctx context.Context, conn *client.Client) (records int64, err error) {
	its, err := conn.Digest(ctx, api.DigestQuery{Topic: d.topic, Partition: int32(d.partition), Log: d.log.Life,
		Region: d.origin.Region, Life: d.origin.Life, From: d.above + 1, To: d.origin.LastRecord, Seek: true})
	if err != nil {
		return 0, err
	}
	defer its.Close()
	for {
		line, err := its.Next()
		switch {
		case err == io.EOF:
			return records, nil
		case err != nil:
			return 0, err
		case line.Batch != nil:
			records += int64(line.Batch.Count - line.Batch.Dropped)
		}
	}
}

// watermarkIn gives how far a region accounts for a life; NoOffset if not at all.
func watermarkIn(d api.TopicDetail, partition int, life *api.Origin) rhumb.Offset {
	if partition < len(d.Logs) {
		for _, o := range d.Logs[partition].Origins {
			if o.Region == life.Region && o.Life == life.Life {
				return o.Watermark
			}
		}
	}
	return rhumb.NoOffset
}

// sendable counts what a log may hold of one of its lives above a watermark. Offsets
// that records of others took count too, so it is an upper bound.
func sendable(log *api.Partition, life int, mark rhumb.Offset) int64 {
	o := log.Origins[life]
	first := max(mark, o.Floor) + 1
	for _, earlier := range log.Origins[:life] {
		if o.Closed && earlier.Closed { // they follow each other in one log
			first = max(first, earlier.LastRecord+1)
		}
	}
	return min(max(0, int64(o.LastRecord+1-first)), max(0, int64(log.End-log.LogStart)))
}

func (e *edgeFigures) addOrigin(o *api.Origin, from, to *regionFigures, records int64) {
	if records == 0 {
		return
	}
	f := originFigures{Number: o.Region, Region: o.RegionName, Records: records}
	f.Earlier = o.Region == to.number || o.Region == from.number && !o.Own && !o.Closed
	i, found := slices.BinarySearchFunc(e.Origins, f, func(a, b originFigures) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), compareBools(a.Earlier, b.Earlier))
	})
	if found {
		e.Origins[i].Records += records
		return
	}
	e.Origins = slices.Insert(e.Origins, i, f)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// amount says how much an edge would send.
func (e *edgeFigures) amount() string {
	most := "at most "
	if e.Exact {
		most = ""
	}
	return fmt.Sprintf("%s%d records, about %s, in %d topics", most, e.Records, size(e.Bytes), len(e.Topics))
}

// ofWhom says whose records an edge would send, if not just what its source published.
func (e *edgeFigures) ofWhom() string {
	if len(e.Origins) == 1 && e.Origins[0].Region == e.Edge.From && !e.Origins[0].Earlier {
		return ""
	}
	var words []string
	for _, o := range e.Origins {
		name := string(o.Region)
		if name == "" {
			name = fmt.Sprintf("region number %d, which was removed", o.Number)
		}
		if o.Earlier {
			name += " before it was rebuilt"
		}
		words = append(words, name)
	}
	return ", of " + strings.Join(words, " and ")
}

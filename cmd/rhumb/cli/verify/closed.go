package verify

import (
	"context"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// place is an origin life in one partition.
type place struct {
	partition int
	life
}

// fate is what became of lives, as their regions say.
type fate struct {
	ends map[place]rhumb.Offset // of lives that were closed
	gone map[place]bool         // lives that their region has no more
	// tops are the last records of the present lives of third regions. What lies above is
	// told to the others now and then only, as is a life in which nothing was ever
	// published: neither is anything to wait for.
	tops map[place]rhumb.Offset
}

// earlier says what became of lives that their regions had before. Some were
// closed, at an end: an operator did that after a region came back with an old copy
// of its data. What a region has of such a life behind its end, its origin has
// forgotten or named anew; regions may differ there, and nothing brings them
// together. Others are gone: their region lost its disk, or somebody deleted the topic
// there alone. What others hold of them goes back to it and nowhere else.
//
// A life of A or B is in their own figures. One of a third region is asked there,
// if a partition holds several lives of that region, or A and B do not account for
// the same of one; if it cannot be reached, its lives are compared as any other.
func (r *runner) earlier(ctx context.Context, t rhumb.Topic, m measured) (f fate) {
	f = fate{ends: map[place]rhumb.Offset{}, gone: map[place]bool{}, tops: map[place]rhumb.Offset{}}
	ask := map[rhumb.RegionName]bool{}
	for i := range m.follow {
		note(f.ends, m.follow[i])
		for n, log := range m.follow[i].Logs {
			lives := map[rhumb.RegionName]int{}
			for _, o := range log.Origins {
				if o.RegionName == r.info[0].Name || o.RegionName == r.info[1].Name {
					continue
				}
				lives[o.RegionName]++
				there, known := origin(m.follow[1-i], n, life{o.Region, o.Life})
				if lives[o.RegionName] > 1 || !known || there.Watermark != o.Watermark {
					ask[o.RegionName] = true
				}
			}
		}
	}
	for name := range ask {
		if name == "" || r.opt.Third == nil {
			continue
		}
		side, err := r.opt.Third(ctx, name)
		if err != nil {
			continue
		}
		d, err := side.Describe(ctx, t)
		switch {
		case err == nil:
			note(f.ends, d)
			tops(f.tops, d)
			lost(f.gone, d, name, m)
		case rhumb.KindOf(err) == rhumb.KindNotFound: // it was deleted in that region alone
			forgotten(f.gone, name, m)
		}
	}
	return f
}

// lost takes the lives of a region that A or B know and the region itself, as its
// figures say, has no more.
func lost(gone map[place]bool, its api.TopicDetail, name rhumb.RegionName, m measured) {
	for i := range m.follow {
		for n, log := range m.follow[i].Logs {
			if n >= len(its.Logs) || !its.Logs[n].Ready || its.Deletions != m.follow[i].Deletions {
				continue
			}
			for _, o := range log.Origins {
				key := life{o.Region, o.Life}
				if own, known := origin(its, n, key); o.RegionName == name && !(known && (own.Own || own.Closed)) {
					gone[place{n, key}] = true
				}
			}
		}
	}
}

// forgotten takes all lives that A or B know of a region that has the topic no more.
func forgotten(gone map[place]bool, name rhumb.RegionName, m measured) {
	for i := range m.follow {
		for n, log := range m.follow[i].Logs {
			for _, o := range log.Origins {
				if o.RegionName == name {
					gone[place{n, life{o.Region, o.Life}}] = true
				}
			}
		}
	}
}

// note takes the closed lives of a region's figures.
func note(ends map[place]rhumb.Offset, d api.TopicDetail) {
	for n, log := range d.Logs {
		for _, o := range log.Origins {
			if o.Closed {
				ends[place{n, life{o.Region, o.Life}}] = o.Watermark
			}
		}
	}
}

// tops takes the last record of each present life of a region's figures.
func tops(all map[place]rhumb.Offset, d api.TopicDetail) {
	for n, log := range d.Logs {
		for _, o := range log.Origins {
			if o.Own && log.Ready {
				all[place{n, life{o.Region, o.Life}}] = o.LastRecord
			}
		}
	}
}

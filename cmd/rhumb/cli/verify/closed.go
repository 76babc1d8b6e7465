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

// closed says where lives end that their regions had before: an operator closed
// them after a region came back with an old copy of its data. What a region has of
// such a life behind its end, its origin has forgotten or named anew; regions may
// differ there, and nothing brings them together.
//
// A life of A or B is in their own figures. One of a third region is asked there,
// if a partition holds several lives of that region; if it cannot be reached, its
// lives are compared as any other.
func (r *runner) closed(ctx context.Context, t rhumb.Topic, m measured) map[place]rhumb.Offset {
	ends := map[place]rhumb.Offset{}
	several := map[rhumb.RegionName]bool{}
	for i := range m.follow {
		note(ends, m.follow[i])
		for _, log := range m.follow[i].Logs {
			lives := map[rhumb.RegionName]int{}
			for _, o := range log.Origins {
				if lives[o.RegionName]++; lives[o.RegionName] > 1 && o.RegionName != r.info[0].Name && o.RegionName != r.info[1].Name {
					several[o.RegionName] = true
				}
			}
		}
	}
	for name := range several {
		if name == "" || r.opt.Third == nil {
			continue
		}
		side, err := r.opt.Third(ctx, name)
		if err != nil {
			continue
		}
		if d, err := side.Describe(ctx, t); err == nil {
			note(ends, d)
		}
	}
	return ends
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

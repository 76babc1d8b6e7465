package admintest

import (
	"context"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Diverge makes partition 0 of a topic differ from a region's copy of it behind
// offset common; the copy has other records up to watermark.
func (r *Region) Diverge(topic rhumb.TopicName, from *Region, common, watermark rhumb.Offset) {
	l := r.Log(string(topic), 0)
	r.change(func() {
		name := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: topic}
		r.diverged = append(r.diverged, admin.Diverged{Topic: name, Origin: r.Identity.Number, Life: l.state.Life, End: l.state.End,
			Destinations: []admin.DivergedDestination{{Region: from.Identity.Name, Life: l.state.Life, Common: common, Exact: true,
				Watermark: watermark, At: time.UnixMilli(1_700_000_000_000)}}})
	})
}

// DivergeCopy makes a copy of another log's own life differ likewise from a region's.
func (r *Region) DivergeCopy(topic rhumb.TopicName, of, from *Region, common, watermark rhumb.Offset) {
	life := of.Log(string(topic), 0).Life()
	r.Diverge(topic, from, common, watermark)
	r.change(func() {
		d := &r.diverged[len(r.diverged)-1]
		d.Copy, d.Origin, d.Life, d.Destinations[0].Life = true, of.Identity.Number, life, life
	})
}

// Diverged lists what Diverge made.
func (r *Region) Diverged() []admin.Diverged {
	return locked(r, func() []admin.Diverged { return slices.Clone(r.diverged) })
}

// NewLife lets a diverged partition go on.
func (r *Region) NewLife(_ context.Context, at rhumb.Partition, life rhumb.Life, _ string, dry bool) (admin.NewLife, error) {
	var out admin.NewLife
	err := rhumb.Errorf(rhumb.KindNotFound, "partition %d of %s is not diverged", at.Index, at.Topic.Short())
	r.change(func() {
		for i, d := range r.diverged {
			if d.Topic != at.Topic || d.Partition != at.Index || d.Copy && d.Life != life {
				continue
			}
			if !life.IsZero() && life != d.Life {
				err = rhumb.Errorf(rhumb.KindFenced, "another life")
				return
			}
			out, err = admin.NewLife{Diverged: d, Last: d.Destinations[0].Common, Exact: true}, nil
			if !dry {
				if out.Done = true; !d.Copy {
					out.Life, out.Closed = rhumb.Life{0xbb}, time.UnixMilli(1_700_000_000_000)
				}
				r.diverged = slices.Delete(r.diverged, i, i+1)
			}
			return
		}
	})
	return out, err
}

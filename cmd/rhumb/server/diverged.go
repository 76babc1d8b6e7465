package server

import (
	"context"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// divergence lets the API see and resolve what links found.
type divergence struct{ links *replicator.Manager }

// divergence gives nil for a region without links.
func (s *Server) divergence() admin.Divergence {
	if s.room.links == nil {
		return nil
	}
	return divergence{s.room.links}
}

// Diverged lists the diverged partitions.
func (d divergence) Diverged() []admin.Diverged {
	var out []admin.Diverged
	for _, p := range d.links.Diverged() {
		out = append(out, divergedPartition(p))
	}
	return out
}

// NewLife gives a diverged partition's log a new life, or leaves copies apart.
func (d divergence) NewLife(ctx context.Context, at rhumb.Partition, life rhumb.Life, by string, dry bool) (admin.NewLife, error) {
	isCopy := slices.ContainsFunc(d.links.Diverged(), func(p replicator.DivergedPartition) bool {
		return p.Copy && p.Topic == at.Topic && p.Partition == at.Index && p.Life == life
	})
	var r replicator.Resolution
	var err error
	if isCopy {
		r, err = d.links.ResolveCopy(ctx, at, life, by, dry)
	} else {
		r, err = d.links.Resolve(ctx, at, life, dry)
	}
	if err != nil {
		return admin.NewLife{}, err
	}
	return admin.NewLife{Diverged: divergedPartition(r.DivergedPartition), Last: r.Last, Exact: r.Exact, Done: r.Done, Life: r.New, Closed: r.Closed}, nil
}

func divergedPartition(p replicator.DivergedPartition) admin.Diverged {
	out := admin.Diverged{Topic: p.Topic, Partition: p.Partition, Origin: p.Origin, Copy: p.Copy, Life: p.Life, End: p.End}
	for _, to := range p.Destinations {
		out.Destinations = append(out.Destinations, admin.DivergedDestination{Region: to.Region, Life: to.Life, Common: to.Common.Offset,
			Exact: to.Exact, Watermark: to.Watermark, At: to.At})
	}
	return out
}

package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Diverged is a partition whose copies in other regions differ from it.
type Diverged struct {
	Topic     rhumb.Topic
	Partition int32
	// Copy: what differs are copies of a life of region number Origin of which no log is
	// left. Else Origin is this region.
	Origin       rhumb.RegionNumber
	Copy         bool
	Life         rhumb.Life
	End          rhumb.Offset
	Destinations []DivergedDestination
}

// DivergedDestination is a region whose copy differs.
type DivergedDestination struct {
	Region    rhumb.RegionName
	Life      rhumb.Life
	Common    rhumb.Offset
	Exact     bool
	Watermark rhumb.Offset
	At        time.Time
}

// NewLife is what giving a diverged partition a new life does, or did; of copies, what
// leaving them as they are does.
type NewLife struct {
	Diverged
	Last   rhumb.Offset
	Exact  bool
	Done   bool
	Life   rhumb.Life // the new one; zero for copies
	Closed time.Time
}

// Divergence finds diverged partitions and lets them go on. NewLife's errors are
// of kind not found if the partition is not diverged, and fenced if its log has
// another life than the caller saw; the zero life stands for whatever it is. The life
// of a copy that differs has it left as it is; by is who says so.
type Divergence interface {
	Diverged() []Diverged
	NewLife(ctx context.Context, at rhumb.Partition, life rhumb.Life, by string, dry bool) (NewLife, error)
}

// diverged answers GET /diverged.
func (s *Server) diverged(r *http.Request) (any, error) {
	list := api.DivergedList{Diverged: []api.Diverged{}}
	if s.cfg.Divergence == nil {
		return list, nil
	}
	for _, d := range s.cfg.Divergence.Diverged() {
		if scopeOf(r).covers(d.Topic.Tenant) {
			list.Diverged = append(list.Diverged, divergedJSON(d))
		}
	}
	return list, nil
}

// newLife answers POST …/partitions/{partition}/life.
func (s *Server) newLife(r *http.Request) (any, error) {
	t, n, _, err := s.partitionOf(r)
	if err != nil {
		return nil, err
	}
	changes(r, "topic %s partition %d", t.Name.Short(), n)
	var req api.NewLifeRequest
	if err := decode(r, &req); err != nil {
		return nil, err
	}
	if s.cfg.Divergence == nil {
		return nil, rhumb.Errorf(rhumb.KindNotFound, "region %s has no links, so nothing of it is diverged", s.cfg.Identity.Name)
	}
	var life rhumb.Life
	if req.Life != nil {
		life = *req.Life
	}
	who, _ := s.callerOf(r) // admitted already
	ctx, cancel := s.untilStop(r, skipTime)
	defer cancel()
	done, err := s.cfg.Divergence.NewLife(ctx, rhumb.Partition{Topic: t.Name, Index: n}, life, who.name, req.DryRun)
	if err != nil {
		return nil, err
	}
	out := api.NewLife{Diverged: divergedJSON(done.Diverged), Last: done.Last, Exact: done.Exact, Done: done.Done}
	if done.Done && !done.Copy {
		out.NewLife, out.ClosedAt = &done.Life, done.Closed.UnixMilli()
	}
	return out, nil
}

func divergedJSON(d Diverged) api.Diverged {
	out := api.Diverged{Topic: d.Topic.String(), Partition: d.Partition, Origin: d.Origin, Copy: d.Copy, Life: d.Life, End: d.End, Destinations: []api.DivergedDestination{}}
	for _, to := range d.Destinations {
		out.Destinations = append(out.Destinations, api.DivergedDestination{Region: to.Region, Life: to.Life, Common: to.Common,
			Exact: to.Exact, Watermark: to.Watermark, At: to.At.UnixMilli()})
	}
	return out
}

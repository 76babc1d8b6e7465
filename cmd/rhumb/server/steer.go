package server

import (
	"context"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
)

// linkControl lets the API steer the links.
type linkControl struct{ *replicator.Manager }

// linkControl gives nil for a region without links.
func (s *Server) linkControl() admin.LinkControl {
	if s.room.links == nil {
		return nil
	}
	return linkControl{s.room.links}
}

// Retry has what waits tried at once.
func (l linkControl) Retry(peer rhumb.RegionName, at *rhumb.Partition) (admin.Retried, error) {
	done, err := l.Manager.Retry(peer, at)
	return admin.Retried(done), err
}

// Skip leaves records out on the way to a region.
func (l linkControl) Skip(ctx context.Context, r admin.SkipRequest) (admin.Skip, error) {
	done, err := l.Manager.Skip(ctx, replicator.SkipRequest{Peer: r.Peer, Partition: r.Partition, Origin: r.Origin, To: r.To, By: r.By}, r.DryRun)
	return admin.Skip{Life: done.Life, From: done.From, To: done.To, Done: done.Done}, err
}

// Check looks at all that a link needs.
func (l linkControl) Check(ctx context.Context, peer rhumb.RegionName) ([]admin.LinkCheck, error) {
	found, err := l.Manager.Check(ctx, peer)
	out := make([]admin.LinkCheck, len(found))
	for i, c := range found {
		out[i] = admin.LinkCheck(c)
	}
	return out, err
}

// pauses gives what is paused, in either direction.
func pauses(of []replicator.Pause) []admin.Pause {
	var out []admin.Pause
	for _, p := range of {
		out = append(out, admin.Pause{Space: p.Space, At: p.At, By: p.By})
	}
	return out
}

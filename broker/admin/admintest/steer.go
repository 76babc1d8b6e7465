package admintest

import (
	"context"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// linkTo changes the link to a region, or says that there is none.
func (r *Region) linkTo(peer rhumb.RegionName, edit func(*admin.Link) error) (err error) {
	hint := nearest.Hint(string(peer), r.Config().Links(), func(l *admin.Link) string { return string(l.Peer) })
	err = rhumb.Errorf(rhumb.KindNotFound, "there is no link to region %q%s: see 'rhumb link list'", peer, hint)
	r.change(func() {
		r.links = slices.Clone(r.links)
		for i := range r.links {
			if r.links[i].Peer == peer {
				err = edit(&r.links[i])
			}
		}
	})
	return err
}

// Pause, Resume, Retry, Skip and Check steer the links that SetLinks set.
func (r *Region) Pause(_ context.Context, peer rhumb.RegionName, space rhumb.Space, by string) error {
	return r.linkTo(peer, func(l *admin.Link) error {
		l.Pauses = append(slices.Clone(l.Pauses), admin.Pause{Space: space, At: time.UnixMilli(1_700_000_000_000), By: by})
		return nil
	})
}

// Resume takes pauses back.
func (r *Region) Resume(_ context.Context, peer rhumb.RegionName, space rhumb.Space) error {
	return r.linkTo(peer, func(l *admin.Link) error {
		before := len(l.Pauses)
		l.Pauses = slices.DeleteFunc(slices.Clone(l.Pauses), func(p admin.Pause) bool { return space.IsZero() || p.Space == space })
		if len(l.Pauses) == before {
			return rhumb.Errorf(rhumb.KindNotFound, "nothing of that is paused")
		}
		return nil
	})
}

// Retry counts the link's partitions.
func (r *Region) Retry(peer rhumb.RegionName, at *rhumb.Partition) (done admin.Retried, err error) {
	err = r.linkTo(peer, func(l *admin.Link) error {
		done.Dialled = l.State == "disconnected"
		for i := range l.Partitions {
			p := &l.Partitions[i]
			if p.Out && (at == nil || p.Topic == at.Topic && p.Partition == at.Index) {
				if p.Refused != nil {
					done.Waiting++
				}
				p.Refused = nil
				done.Flows++
				done.Partitions++
			}
		}
		return nil
	})
	return done, err
}

// Skip skips from the offset that is refused, else from behind what is confirmed.
func (r *Region) Skip(_ context.Context, q admin.SkipRequest) (out admin.Skip, err error) {
	err = r.linkTo(q.Peer, func(l *admin.Link) error {
		for i := range l.Partitions {
			p := &l.Partitions[i]
			if !p.Out || p.Topic != q.Partition.Topic || p.Partition != q.Partition.Index {
				continue
			}
			out = admin.Skip{Life: p.Life, From: p.Confirmed + 1, To: q.To - 1, Done: !q.DryRun && p.Confirmed+1 < q.To}
			if out.Done {
				p.Confirmed, p.Refused = q.To-1, nil
			}
			return nil
		}
		return rhumb.Errorf(rhumb.KindNotFound, "no edge leads partition %d of %s to region %s", q.Partition.Index, q.Partition.Topic.Short(), q.Peer)
	})
	return out, err
}

// Check finds a link well that is not disconnected.
func (r *Region) Check(_ context.Context, peer rhumb.RegionName) (out []admin.LinkCheck, err error) {
	err = r.linkTo(peer, func(l *admin.Link) error {
		out = []admin.LinkCheck{{Name: "registered", OK: true, Detail: "number 2"}, {Name: "address", Target: "geo.example:7650",
			OK: l.State != "disconnected", Detail: "no answer", Next: "look at UDP"}}
		return nil
	})
	return out, err
}

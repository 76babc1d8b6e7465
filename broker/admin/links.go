package admin

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
)

// links answers GET /links. Figures come from the replicator as they are.
func (s *Server) links(r *http.Request) (any, error) {
	list := api.LinkList{Links: []api.Link{}}
	if s.cfg.Links == nil {
		return list, nil
	}
	for _, l := range s.cfg.Links() {
		list.Links = append(list.Links, linkJSON(scopeOf(r).scopeLink(l)))
	}
	slices.SortFunc(list.Links, func(a, b api.Link) int { return cmp.Compare(a.Peer, b.Peer) })
	return list, nil
}

func linkJSON(l Link) api.Link {
	out := api.Link{Peer: l.Peer, PeerNumber: l.PeerNumber, State: l.State, Since: millis(l.Since), ConnectionSince: millis(l.Connection), Address: l.Address, Version: l.Version,
		RTT: l.RTT.Seconds(), Out: flowJSON(l.Out), In: flowJSON(l.In), LastError: l.LastError, LastErrorAt: millis(l.LastErrorAt),
		Path: api.LinkPath(l.Path), Heard: -1, Pauses: []api.Pause{}, Partitions: []api.LinkPartition{}}
	if !l.Heard.IsZero() {
		out.Heard = max(0, time.Since(l.Heard).Seconds())
	}
	for direction, list := range map[string][]Pause{"out": l.Pauses, "in": l.PeerPauses} {
		for _, p := range list {
			one := api.Pause{Direction: direction, Since: millis(p.At), By: p.By}
			if !p.Space.IsZero() {
				one.Namespace = p.Space.String()
			}
			out.Pauses = append(out.Pauses, one)
		}
	}
	slices.SortFunc(out.Pauses, func(a, b api.Pause) int {
		return cmp.Or(cmp.Compare(b.Direction, a.Direction), cmp.Compare(a.Namespace, b.Namespace))
	})
	for _, p := range l.Partitions {
		direction := "in"
		if p.Out {
			direction = "out"
		}
		out.Partitions = append(out.Partitions, api.LinkPartition{Direction: direction, Topic: p.Topic.String(),
			Partition: p.Partition, Region: p.Region, Life: p.Life, State: p.State, End: p.End, Sent: p.Sent,
			Confirmed: p.Confirmed, LagRecords: p.LagRecords, LagBytes: p.LagBytes, LagSeconds: lagSeconds(p.Lag),
			LastError: p.LastError, LastErrorAt: millis(p.LastErrorAt), Limited: p.Limited, Refused: refusalJSON(p.Refused)})
	}
	return out
}

func refusalJSON(r *Refusal) *api.Refusal {
	if r == nil {
		return nil
	}
	return &api.Refusal{At: r.At, Code: r.Code, Reason: r.Reason, Since: millis(r.Since)}
}

// lagSeconds gives an age in seconds, -1 for one that is not known.
func lagSeconds(d time.Duration) float64 {
	if d < 0 {
		return -1
	}
	return d.Seconds()
}

// millis gives a time in ms since 1970, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func flowJSON(f Flow) api.Flow {
	return api.Flow{LagRecords: f.LagRecords, LagBytes: f.LagBytes, LagSeconds: lagSeconds(f.Lag), LagUnknown: f.LagUnknown, Bytes: f.Bytes,
		Records: f.Records, BytesPerSecond: f.BytesPerSecond, Rewinds: f.Rewinds}
}

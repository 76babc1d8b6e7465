package server

import (
	"cmp"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
)

// drain gives what a region that takes no producers has still to send, nil while it
// takes them.
func (s *Server) drain() *admin.Drain {
	doc, ok := s.ownDocument()
	if !ok || !doc.Drains() {
		return nil
	}
	d := s.remaining()
	d.State, d.Since = string(doc.State), doc.StateAt
	return &d
}

// flowKey names the flow of a partition to a region.
type flowKey struct {
	peer  rhumb.RegionName
	topic rhumb.Topic
	index int32
}

// remaining compares what was published here with what the links know as confirmed.
// What they do not know counts as not confirmed: a partition of which no flow says
// anything, since it is new or the peer cannot be reached, is behind.
func (s *Server) remaining() admin.Drain {
	d := admin.Drain{Producing: s.room.broker.Producing()}
	behind := map[rhumb.RegionName]*admin.DrainPeer{}
	flows := map[flowKey][]replicator.PartitionStatus{}
	if s.room.links != nil {
		for _, l := range s.room.links.Status().Links {
			state, _ := linkState(l)
			behind[l.Peer] = &admin.DrainPeer{Peer: l.Peer, State: state, LastError: l.LastError}
			for _, p := range l.Partitions {
				key := flowKey{l.Peer, p.Topic, p.Partition}
				flows[key] = append(flows[key], p)
			}
		}
	}
	for _, t := range s.room.region.Topics() {
		to := s.destinations(t.Topic)
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if !s.published(p) {
				continue
			}
			nowhere := true // what every destination has deleted is here only, too
			for _, peer := range to {
				nowhere = nowhere && leavesOut(flows[flowKey{peer, t.Topic, p.Index}])
			}
			if nowhere && !slices.Contains(d.Alone, t.Topic) {
				d.Alone = append(d.Alone, t.Topic)
			}
			for _, peer := range to {
				if behind[peer] == nil {
					behind[peer] = &admin.DrainPeer{Peer: peer, State: string(replicator.LinkDisconnected)}
				}
				count(behind[peer], flows[flowKey{peer, t.Topic, p.Index}], p.Life)
			}
		}
	}
	for _, peer := range behind {
		if peer.Partitions > 0 {
			d.Behind = append(d.Behind, *peer)
		}
	}
	slices.SortFunc(d.Behind, func(a, b admin.DrainPeer) int { return cmp.Compare(a.Peer, b.Peer) })
	slices.SortFunc(d.Alone, func(a, b rhumb.Topic) int { return cmp.Compare(a.String(), b.String()) })
	return d
}

// published reports whether a partition holds, or may hold, records that were
// published in this region.
func (s *Server) published(p *region.PartitionInfo) bool {
	if !p.Ready {
		return true // what is not known counts
	}
	st, ok := s.room.region.State(p.Ref)
	return !ok || st.OwnLast >= st.LogStart
}

// destinations gives the regions to which edges carry a topic from here.
func (s *Server) destinations(t rhumb.Topic) (to []rhumb.RegionName) {
	for _, e := range s.room.view.EdgesOf(t) {
		if e.From == s.cfg.Region.Name {
			to = append(to, e.To)
		}
	}
	return to
}

// leavesOut reports whether a peer takes nothing of a partition, since its topic was
// deleted there.
func leavesOut(flows []replicator.PartitionStatus) bool {
	return slices.ContainsFunc(flows, func(f replicator.PartitionStatus) bool { return f.State == replicator.SessionLeftOut })
}

// count adds what a peer has not confirmed of a partition. Of the log's own life at
// least, something must be known.
func count(peer *admin.DrainPeer, flows []replicator.PartitionStatus, life rhumb.Life) {
	known := leavesOut(flows)
	var records, bytes int64
	for _, f := range flows {
		// What another path brings of other origins is not this region's to wait for.
		if f.State == replicator.SessionClosed || f.State == replicator.SessionStandby && f.Life != life {
			continue
		}
		known = known || f.Life == life && f.Lag.Known
		records += f.Lag.Records
		bytes += f.Lag.Bytes
	}
	if known && records == 0 {
		return
	}
	peer.Partitions++
	peer.Records += records
	peer.Bytes += bytes
}

package shard

import (
	"context"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// floorsAt gives the floors that a log start moves: of each foreign life, the
// last origin offset that lies below it.
func (s *Shard) floorsAt(id rhumb.PartitionID, start rhumb.Offset) ([]floorOf, error) {
	st, ok := s.State(id)
	if !ok || start <= st.LogStart {
		return nil, nil
	}
	var floors []floorOf
	for _, w := range st.Watermarks {
		floor, err := s.floorAt(id, w, start, st.End)
		if err != nil {
			return nil, err
		}
		if floor > w.Floor {
			floors = append(floors, floorOf{w.Region, w.Life, floor})
		}
	}
	return floors, nil
}

// floorAt finds the last origin offset of a life whose record lies below start.
// A life's records have the same order here as at the origin.
func (s *Shard) floorAt(id rhumb.PartitionID, w dedup.Watermark, start, end rhumb.Offset) (rhumb.Offset, error) {
	floor := w.Floor
	lo, hi := w.Floor+1, w.Offset // what is searched for lies at lo-1 to hi
	for lo <= hi {
		mid := lo + (hi-lo)/2
		found, err := s.cfg.Storage.ReadOrigin(OriginQuery{Partition: id, Region: w.Region, Life: w.Life, From: mid, Limit: end, MaxBytes: 1})
		if err != nil {
			return floor, err
		}
		if len(found) > 0 && found[0].Base < start {
			floor = found[0].Envelope.Last
			lo = floor + 1
		} else {
			hi = mid - 1
		}
	}
	return floor, nil
}

// ChainAt gives the chain of an origin life at an offset that ends one of its
// batches here, false if there is none.
func (s *Shard) ChainAt(id rhumb.PartitionID, region rhumb.RegionNumber, life rhumb.Life, offset rhumb.Offset) (uint64, bool) {
	st, ok := s.State(id)
	if !ok || offset < 0 {
		return 0, false
	}
	found, err := s.cfg.Storage.ReadOrigin(OriginQuery{Partition: id, Region: region, Life: life, From: offset, Limit: st.End, MaxBytes: 1})
	if err != nil || len(found) == 0 || found[0].Envelope.Last != offset {
		return 0, false
	}
	return found[0].Envelope.Chain, true
}

// Rows gives all rows of the state machine with the entry up to which it has
// applied: equal on all replicas at an equal index.
func (s *Shard) Rows(ctx context.Context) (rows []KV, index uint64, err error) {
	done := make(chan struct{})
	if err := s.do(func() {
		rows, index = s.m.dump(), s.m.index
		close(done)
	}); err != nil {
		return nil, 0, err
	}
	select {
	case <-done:
		return rows, index, nil
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
}

// Storage gives the shard's place on this node's disk, to read from.
func (s *Shard) Storage() Storage { return s.cfg.Storage }

// ExpireProducers forgets the producers of all partitions that were last used
// before a time in ms since 1970.
func (s *Shard) ExpireProducers(ctx context.Context, before int64) error {
	found := make(chan []rhumb.PartitionID, 1)
	if err := s.do(func() { found <- s.idleProducers(before) }); err != nil {
		return err
	}
	select {
	case ids := <-found:
		for _, id := range ids {
			if _, err := s.control(ctx, &expireProducersCommand{id, before}); err != nil {
				return err
			}
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Shard) idleProducers(before int64) []rhumb.PartitionID {
	var ids []rhumb.PartitionID
	for id, p := range s.m.partitions {
		for _, pr := range p.producers {
			if pr.known && pr.applied.LastUse < before {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

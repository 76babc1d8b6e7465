package shard

import (
	"slices"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// StartMove says why own records up to an offset are gone: the last own offset,
// on a batch border, that a move of the log start dropped, with its chain.
type StartMove struct {
	dedup.ChainPoint
	Reason rhumb.Reason // retention or deleted
}

// maxStarts is how many moves for different reasons a partition remembers. What
// is older counts to the oldest that is remembered.
const maxStarts = 8

// noteStart remembers why the log start moved. Moves for one reason in a row are
// one: a gap over them has one cause. A move that drops no own batch, as one into the
// middle of the batch that the log starts with, is no cause of anything.
func (p *partition) noteStart(c *logStartCommand) {
	if c.own == nil {
		return // of a version that did not say
	}
	if n := len(p.starts); n > 0 && (c.own.Offset <= p.starts[n-1].Offset || c.own.Chain == p.starts[n-1].Chain) {
		return // what is gone up to there was dropped before
	}
	moves := slices.Clone(p.starts) // readers share the old one
	if n := len(moves); n > 0 && moves[n-1].Reason == c.reason {
		moves = moves[:n-1]
	}
	moves = append(moves, StartMove{*c.own, c.reason})
	p.starts = moves[max(0, len(moves)-maxStarts):]
}

// ownFloorAt gives the last own offset that a log start drops, on a batch border,
// with the chain there.
func (s *Shard) ownFloorAt(id rhumb.PartitionID, start rhumb.Offset) (*dedup.ChainPoint, error) {
	st, ok := s.State(id)
	if !ok || start <= st.LogStart {
		return nil, nil
	}
	found, err := s.ReadOrigin(&st, OriginQuery{Partition: id, Region: s.cfg.Region, From: start, Limit: st.End, MaxBytes: 1})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return &dedup.ChainPoint{Offset: start - 1, Chain: st.OwnChain}, nil
	}
	b, err := originBatch(&found[0])
	if err != nil {
		return nil, err
	}
	return &dedup.ChainPoint{Offset: min(start, b.First) - 1, Chain: dedup.ChainBefore(b)}, nil
}

func originBatch(s *Stored) (dedup.OriginBatch, error) {
	h, err := codec.ParseBatch(s.Batch)
	return dedup.OriginBatchOf(&s.Envelope, h), err
}

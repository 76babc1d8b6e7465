package server

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
)

// Where a batch could not be read is kept among the region's settings, under the node that
// has the disk, and read again at the next start: a restart mends no file, and somebody who
// looks at health after one must not take the region for sound until a client happens to
// read there. What can be read again, or is gone, is forgotten.

// damageScope is the scope of a node's settings that name batches which it could not read.
func damageScope(node int32) string { return fmt.Sprintf("damage/%d", node) }

// damageRetry is how long to wait before damage is tried again to be kept, or to be read
// where it cannot be told yet.
const damageRetry = 10 * time.Second

// damagedBatch is a place where a batch could not be read.
type damagedBatch struct {
	ref rhumb.PartitionRef
	at  rhumb.Offset
}

func (d damagedBatch) key() string { return fmt.Sprintf("%d/%d/%d", d.ref.Shard, d.ref.ID, d.at) }

// readDamaged reads a key; what is none counts as nothing.
func readDamaged(key string) (d damagedBatch, ok bool) {
	n, err := fmt.Sscanf(key, "%d/%d/%d", &d.ref.Shard, &d.ref.ID, &d.at)
	return d, err == nil && n == 3 && d.at >= 0 && d.key() == key
}

// damaged has what was found kept; it must not wait, since who reads does.
func (s *Server) damaged(d storage.Damage) {
	s.log.Error("a file is damaged: a batch cannot be read", "file", d.File, "shard", d.Shard, "partition_id", d.Partition, "offset", int64(d.Offset), "last", int64(d.Last), "err", d.Err)
	select {
	case s.damages <- struct{}{}:
	default:
	}
}

// keepDamage reads again what could not be read before the start, and keeps what cannot be
// read now, until the context ends.
func (s *Server) keepDamage(ctx context.Context) error {
	scope := damageScope(nodeID(s.room.self.Number, 0))
	open := map[string]damagedBatch{} // what was found before, and is not looked at yet
	for key := range s.room.region.Settings(scope) {
		if d, ok := readDamaged(key); ok {
			open[key] = d
		}
	}
	for {
		maps.DeleteFunc(open, func(_ string, d damagedBatch) bool { return s.looked(d) })
		now := map[string]string{}
		for key := range open {
			now[key] = ""
		}
		for _, d := range s.room.store.Health().Damaged {
			now[damagedBatch{placeOf(d), d.Offset}.key()] = ""
		}
		err := s.room.region.AlterSettings(ctx, scope, func(map[string]string) (map[string]string, error) { return now, nil })
		pause := time.Duration(math.MaxInt64)
		if err != nil || len(open) > 0 {
			pause = damageRetry
		}
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		case <-s.damages:
		case <-again.C:
		}
		again.Stop()
	}
}

// looked reads a batch that could not be read before the start, and reports whether it is
// known now how it is: health tells of what is damaged still.
func (s *Server) looked(d damagedBatch) bool {
	_, err := s.room.region.Read(d.ref, region.Query{From: d.at, Limit: math.MaxInt64, MaxBytes: 1})
	return err == nil || !rhumb.KindOf(err).Retriable()
}

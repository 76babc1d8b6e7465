package server

import (
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/region"
)

// backlogProblems tells of producers that wait for other regions, and of records
// that were dropped although other regions lack them.
func (s *Server) backlogProblems(problem func(part, state, format string, args ...any)) {
	b := s.room.region.Backlog()
	if b.Refusing > 0 {
		problem("backlog", "hold", "producers of %d partitions are refused: %s", b.Refusing, b.Why)
	}
	if d := b.Last; d != nil && time.Since(d.At) < region.DropRow {
		problem("backlog", "gap", "%d records were dropped since %s that other regions lack, last at %s: offsets %d to %d of partition %d of %s, which %v had not confirmed; %s. They will be gaps there: see 'rhumb gap list' there, 'rhumb link list' for why it is behind",
			d.Records, d.Since.UTC().Format(time.RFC3339), d.At.UTC().Format(time.RFC3339), d.From, d.To, d.Partition, d.Topic.Short(), d.Missing, d.Reason)
	}
}

// backlogFigures are the metrics of what retention keeps for other regions.
func (s *Server) backlogFigures(emit func(admin.Metric)) {
	b := s.room.region.Backlog()
	gauge := func(name, help string, v float64) { emit(admin.Metric{Name: name, Help: help, Value: v}) }
	gauge("rhumb_backlog_held_bytes", "Bytes that are kept beyond their retention, for other regions.", float64(b.Bytes))
	gauge("rhumb_backlog_held_bytes_limit", "How many bytes may be so kept.", float64(b.Limit))
	gauge("rhumb_backlog_held_partitions", "Partitions that keep something beyond its retention, for other regions.", float64(b.Partitions))
	gauge("rhumb_backlog_refused_partitions", "Partitions whose producers are refused until other regions have confirmed.", float64(b.Refusing))
	emit(admin.Metric{Name: "rhumb_backlog_dropped_records_total", Help: "Records that were dropped although another region had not confirmed them.",
		Value: float64(b.Dropped), Counter: true})
}

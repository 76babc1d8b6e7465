package server

import (
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
)

// clientFigures are the metrics of the Kafka listeners and of certificates.
func (s *Server) clientFigures(emit func(admin.Metric)) {
	if k := s.kafka.Load(); k != nil {
		st := k.Stats()
		emit(admin.Metric{Name: "rhumb_kafka_connections", Help: "Open connections of Kafka clients.", Value: float64(st.Connections)})
		for _, c := range []struct {
			name, help string
			value      int64
		}{
			{"rhumb_kafka_connections_accepted_total", "Connections of Kafka clients that were taken.", st.Accepted},
			{"rhumb_kafka_connections_refused_total", "Connections of Kafka clients that were over a limit.", st.Refused},
			{"rhumb_kafka_logins_total", "Logins of Kafka clients that were taken.", st.Logins},
			{"rhumb_kafka_logins_failed_total", "Logins of Kafka clients that were refused.", st.LoginsFailed},
			{"rhumb_kafka_fetched_bytes_total", "Bytes of batches that Kafka clients were given.", st.Fetched},
			{"rhumb_kafka_fetched_by_file_bytes_total", "Of these, bytes that went from files to sockets without a copy.", st.FetchedByPlace},
		} {
			emit(admin.Metric{Name: c.name, Help: c.help, Value: float64(c.value), Counter: true})
		}
	}
	for name, source := range s.in.certs {
		emit(admin.Metric{Name: "rhumb_certificate_expiry_seconds", Help: "When the first certificate of a listener ends, in seconds since 1970.",
			Labels: []string{"listener", name}, Value: float64(source.Current().Expiry().Unix())})
	}
}

// expirySoon is how long before its end a certificate is a problem.
const expirySoon = 30 * 24 * time.Hour

// certificateProblems tells of certificates that end soon, and of files that
// cannot be used.
func (s *Server) certificateProblems(problem func(part, state, format string, args ...any)) {
	for name, source := range s.in.certs {
		switch end := source.Current().Expiry(); {
		case source.Err() != nil:
			problem("listener "+name, "certificate refused", "%v; the one before stays in use", source.Err())
		case source.Current().Begun() != nil:
			problem("listener "+name, "certificate not begun", "%v; put another one into the file, or set the clock right", source.Current().Begun())
		case time.Until(end) <= 0:
			problem("listener "+name, "certificate expired", "it ended at %s; put a new one into the file, no restart is needed", end.UTC().Format(time.RFC3339))
		case time.Until(end) < expirySoon:
			problem("listener "+name, "certificate expires", "it ends at %s; put a new one into the file, no restart is needed", end.UTC().Format(time.RFC3339))
		}
	}
}

// compactionFigures tells what compaction has read, written and taken away, and what is
// written again besides.
func (s *Server) compactionFigures(emit func(admin.Metric)) {
	st, again := s.room.store.CompactionStats(), s.room.store.ReclaimStats()
	for _, c := range []struct {
		name, help string
		value      uint64
	}{
		{"rhumb_compaction_passes_total", "Passes of compaction over a partition.", st.Passes},
		{"rhumb_compaction_read_bytes_total", "Bytes of batches that compaction has read.", st.Read},
		{"rhumb_compaction_dirty_bytes_total", "Of these, bytes that no pass had seen before.", st.Dirty},
		{"rhumb_compaction_written_bytes_total", "Bytes of batches that compaction has written.", st.Written},
		{"rhumb_compaction_removed_records_total", "Records that compaction has taken away.", st.Removed},
		{"rhumb_storage_log_written_bytes_total", "Bytes written to the log.", again.Log},
		{"rhumb_storage_rewritten_bytes_total", "Bytes of batches copied out of files of which little was left.", again.Written},
		{"rhumb_storage_rewritten_files_total", "Such files.", again.Files},
	} {
		emit(admin.Metric{Name: c.name, Help: c.help, Value: float64(c.value), Counter: true})
	}
}

// groupFigures tells of consumer groups. Lag has a series for each position, up to a
// limit: whoever has more positions asks for the groups that matter.
func (s *Server) groupFigures(emit func(admin.Metric)) {
	b := s.room.broker
	f := b.Coordinator().Figures()
	for state, n := range f.States {
		emit(admin.Metric{Name: "rhumb_groups", Help: "Consumer groups that this node coordinates, by state.",
			Labels: []string{"state", state.String()}, Value: float64(n)})
	}
	for _, m := range []struct {
		name, help string
		value      float64
		counter    bool
	}{
		{"rhumb_group_members", "Members of all consumer groups.", float64(f.Members), false},
		{"rhumb_group_memory_bytes", "What members of consumer groups say and are assigned.", float64(f.Memory), false},
		{"rhumb_group_offsets", "Committed offsets that are kept.", float64(f.Offsets), false},
		{"rhumb_group_offsets_bytes", "What they take in memory.", float64(f.OffsetMemory), false},
		{"rhumb_group_rebalances_total", "Rebalances that ended in a new generation.", float64(f.Rebalances), true},
		{"rhumb_group_offset_commits_total", "Offsets that were committed.", float64(f.Commits), true},
		{"rhumb_group_offset_commits_refused_total", "Offsets that were refused because of a limit.", float64(f.CommitsRefused), true},
		{"rhumb_group_joins_total", "Answers to members that joined.", float64(f.Joins), true},
		{"rhumb_group_join_seconds_total", "How long these took, in all.", f.JoinTime.Seconds(), true},
		{"rhumb_group_syncs_total", "Answers to members that asked for their assignment.", float64(f.Syncs), true},
		{"rhumb_group_sync_seconds_total", "How long these took, in all.", f.SyncTime.Seconds(), true},
	} {
		emit(admin.Metric{Name: m.name, Help: m.help, Value: m.value, Counter: m.counter})
	}
	most := s.cfg.Limits.GroupLagSeries
	if most <= 0 {
		return
	}
	lags, left := b.GroupLags(most)
	for _, l := range lags {
		emit(admin.Metric{Name: "rhumb_group_lag", Help: "Records between a group's committed offset and the partition's end.",
			Labels: []string{"tenant", string(l.Group.Tenant), "namespace", string(l.Group.Namespace), "group", strings.ToValidUTF8(l.Group.Group, "\ufffd"),
				"topic", l.Topic.Short(), "partition", strconv.Itoa(int(l.Partition))}, Value: float64(l.Records)})
	}
	emit(admin.Metric{Name: "rhumb_group_lag_series_left_out", Help: "Committed offsets without a series of rhumb_group_lag: limits.group_lag_series.", Value: float64(left)})
}

package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator"
	"github.com/rhumbmq/rhumb/storage"
)

// health says whether the region lives and serves, and what is not right.
func (s *Server) health() admin.Health {
	h := admin.Health{Live: true, Ready: s.serving.Load()}
	problem := func(part, state, format string, args ...any) {
		h.Problems = append(h.Problems, admin.Problem{Part: part, State: state, Message: fmt.Sprintf(format, args...)})
	}
	switch disk := s.room.store.Health(); disk.State {
	case storage.StateLowSpace:
		problem("storage", "low space", "%d bytes free, writes are refused below %d; delete topics or records, or add space", disk.Free, disk.MinFree)
	case storage.StateFailed:
		h.Live, h.Ready = false, false
		problem("storage", "failed", "%s", s.storageProblem(disk.Err))
	}
	s.damageProblems(problem)
	for id, err := range s.room.region.Health().Failed {
		h.Ready = false
		problem(fmt.Sprintf("shard %d", id), "failed", "%v", err)
	}
	s.storeProblems(problem)
	s.certificateProblems(problem)
	s.tokenProblems(problem)
	s.twiceProblems(problem)
	s.backlogProblems(problem)
	if s.standingProblems(problem) {
		h.Ready = false
	}
	if s.room.links != nil {
		st := s.room.links.Sums()
		for _, l := range st.Links {
			linkProblems(l, problem)
		}
		pathProblems(st.Origins, problem)
	}
	return h
}

// links turns the links' state into the API's.
func (s *Server) links() []admin.Link {
	if s.room.links == nil {
		return nil
	}
	var out []admin.Link
	for _, l := range s.room.links.Status().Links {
		a := linkFigures(l)
		for _, p := range l.Partitions {
			a.Partitions = append(a.Partitions, outbound(s.room.self.Number, p))
		}
		for _, p := range l.Inbound {
			a.Partitions = append(a.Partitions, inbound(l.Number, p))
		}
		out = append(out, a)
	}
	return out
}

// linkSums is links without the partitions.
func (s *Server) linkSums() []admin.Link {
	if s.room.links == nil {
		return nil
	}
	var out []admin.Link
	for _, l := range s.room.links.Sums().Links {
		out = append(out, linkFigures(l))
	}
	return out
}

// linkFigures gives what is to say of a link beside its partitions.
func linkFigures(l replicator.LinkStatus) admin.Link {
	state, since := linkState(l)
	a := admin.Link{
		Peer: l.Peer, PeerNumber: l.Number, State: state, Since: since, Connection: l.Since, Address: l.Remote, RTT: l.RTT,
		LastError: l.LastError, LastErrorAt: l.LastErrorAt, DivergedTries: int64(l.DivergedTries), Version: l.Software, Heard: l.Heard,
		Diverged: l.Sums.Diverged, Refused: l.Sums.Refused,
		Pauses: pauses(l.Pauses), PeerPauses: pauses(l.PeerPauses),
		Path: admin.LinkPath{Connections: l.Connections, ConnectionsMost: l.ConnectionsMost, ConnectionsLost: int64(l.ConnectionsLost),
			Loss: l.Loss, Goodput: l.Goodput, PaddingBytes: int64(l.PaddingBytes), FECMode: l.Correction.Mode, FEC: l.Correction.Code, FECLoss: l.Correction.Loss,
			FECRecovered: int64(l.Correction.Recovered), FECRecoveredHere: int64(l.Correction.RecoveredHere),
			FECParityBytes: int64(l.Correction.ParityBytes)},
		Out: admin.Flow{Bytes: int64(l.SentBytes), Records: int64(l.SentRecords), BytesPerSecond: l.SendRate, Rewinds: int64(l.Rewinds)},
		In:  admin.Flow{Bytes: int64(l.ReceivedBytes), Records: int64(l.ReceivedRecords), BytesPerSecond: l.ReceiveRate, LagRecords: unknown, LagBytes: unknown, Lag: unknown},
	}
	a.Out.LagRecords, a.Out.LagBytes, a.Out.Lag = sumLag(&l.Sums)
	a.Out.LagUnknown = l.Sums.Unknown
	return a
}

// unknown is a figure that nobody can tell.
const unknown = -1

// lagOf is a partition's lag for people: while the destination has told nothing to this
// process, as after a restart while it is down, it may have had everything before.
func lagOf(p *replicator.PartitionStatus) (records, bytes int64, age time.Duration) {
	if !p.Lag.Known && p.Lag.Records > 0 {
		return unknown, unknown, unknown
	}
	return p.Lag.Records, p.Lag.Bytes, p.Lag.Age
}

// sumLag gives what a link's partitions are behind: at least, while the destination has
// told nothing of some of them. A bound of zero would say nothing: then it is unknown.
func sumLag(all *replicator.Sums) (records, bytes int64, age time.Duration) {
	records, bytes, age = all.Lag.Records, all.Lag.Bytes, all.Lag.Age
	if all.Unknown == 0 {
		return records, bytes, age
	}
	if records == 0 {
		return unknown, unknown, unknown
	}
	if bytes == 0 {
		bytes = unknown
	}
	if age == 0 {
		age = unknown
	}
	return records, bytes, age
}

// severity orders the states of partitions: a link shows the gravest.
var severity = []replicator.SessionState{
	replicator.SessionClosed, replicator.SessionLeftOut, replicator.SessionStandby, replicator.SessionIdle, replicator.SessionFlowing, replicator.SessionPaused, replicator.SessionHeld,
	replicator.SessionStalled, replicator.SessionRefused, replicator.SessionDiverged,
}

// linkState is that of the connection, or if it stands, what its partitions do, and
// since when it is so: as the pause says, or its partitions. A link is in a grave state
// since the first of its partitions came to it, and idle since the last of them did.
func linkState(l replicator.LinkStatus) (state string, since time.Time) {
	if l.State != replicator.LinkConnected {
		return string(l.State), l.Since
	}
	if i := slices.IndexFunc(l.Pauses, func(p replicator.Pause) bool { return p.Space.IsZero() }); i >= 0 {
		return string(replicator.SessionPaused), later(l.Since, l.Pauses[i].At)
	}
	worst := 0
	for state := range l.Sums.States {
		worst = max(worst, slices.Index(severity, state))
	}
	if worst <= slices.Index(severity, replicator.SessionIdle) {
		return string(replicator.SessionIdle), later(l.Since, l.Sums.Entered[replicator.SessionIdle].Last)
	}
	return string(severity[worst]), later(l.Since, l.Sums.Entered[severity[worst]].First)
}

// later gives the later of two moments.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// inbound tells how far this region is. How far that is behind only the sender
// knows: what it said last may be old.
func inbound(peer rhumb.RegionNumber, p replicator.InboundStatus) admin.LinkPartition {
	return admin.LinkPartition{
		Topic: p.Topic, Partition: p.Partition, Region: peer, Life: p.Life, End: p.Head - 1, Confirmed: p.Watermark,
		LagRecords: unknown, LagBytes: unknown, Lag: unknown,
	}
}

func outbound(self rhumb.RegionNumber, p replicator.PartitionStatus) admin.LinkPartition {
	if p.Forwarded {
		self = p.Origin
	}
	var refused *admin.Refusal
	if r := p.Refused; r != nil {
		refused = &admin.Refusal{At: r.At, Code: r.Code.String(), Reason: r.Text, Since: r.Since}
	}
	records, bytes, age := lagOf(&p)
	return admin.LinkPartition{
		Limited: p.Limited, Refused: refused,
		Out: true, Topic: p.Topic, Partition: p.Partition, Region: self, Life: p.Life, State: string(p.State),
		End: p.End, Sent: p.Sent, Confirmed: p.Confirmed, LagRecords: records, LagBytes: bytes, Lag: age,
		LastError: cmp.Or(p.LastError, p.Standby), LastErrorAt: p.LastErrorAt,
	}
}

func (s *Server) storageEvents() storage.Events {
	return storage.Events{
		TailCut: func(file uint64, position, bytes int64) {
			s.log.Warn("torn end of the log was cut", "file", file, "position", position, "bytes", bytes)
		},
		LogWrites: func(direct bool, why error) {
			said, reason := "log is written through the page cache", []any{"log_writes", s.cfg.LogWrites}
			if direct {
				said = "large pieces of the log are written past the page cache"
			}
			if why != nil {
				reason = append(reason, "err", why)
			}
			s.log.Info(said, reason...)
		},
		CopyForward: func(shard rhumb.ShardID, entries int) {
			s.log.Warn("entries of a stuck shard were copied forward", "shard", shard, "entries", entries)
		},
		LowSpace: func(low bool, free, minFree uint64) {
			s.log.Warn("free space crossed its limit", "low", low, "free", free, "min_free", minFree)
		},
		Failed:      s.storageFailed,
		SettleError: func(err error) { s.log.Warn("settling is tried again", "err", err) },
		Damaged:     s.damaged,
	}
}

// metrics gives the figures of parts that do not know the exporter.
func (s *Server) metrics() []func(emit func(admin.Metric)) {
	return []func(emit func(admin.Metric)){s.clientFigures, s.compactionFigures, s.groupFigures, s.backlogFigures, s.storeFigures, func(emit func(admin.Metric)) {
		disk, reg := s.room.store.Health(), s.room.region.Health()
		gauge := func(name, help string, v float64) { emit(admin.Metric{Name: name, Help: help, Value: v}) }
		gauge("rhumb_storage_free_bytes", "Free space of the disk that holds the data directory.", float64(disk.Free))
		gauge("rhumb_storage_min_free_bytes", "Free space below which writes are refused.", float64(disk.MinFree))
		gauge("rhumb_storage_state", "0: ok, 1: low space, 2: failed.", float64(disk.State))
		gauge("rhumb_storage_damaged_files", "Files of which a batch could not be read since the start.", float64(len(disk.Damaged)))
		direct := 0.0
		if s.room.store.Direct() {
			direct = 1
		}
		gauge("rhumb_storage_log_direct", "1: large pieces of the log pass the page cache by, 0: none do.", direct)
		gauge("rhumb_partitions_limit", "Partitions that the region may have.", float64(s.cfg.Limits.Partitions))
		gauge("rhumb_region_shards", "Shards of the region.", float64(reg.Shards))
		gauge("rhumb_region_shards_leading", "Shards that this node leads.", float64(reg.Leading))
		gauge("rhumb_region_append_in_flight_bytes", "Batches between a request or link and the log.", float64(reg.InFlight))
		if s.room.links != nil {
			st := s.room.links.Sums()
			gauge("rhumb_link_send_budget_used_bytes", "Data sent on links and not confirmed.", float64(st.SendBytes))
			gauge("rhumb_link_receive_budget_used_bytes", "Data received on links and not stored yet.", float64(st.ReceiveBytes))
			pathMetrics(st.Origins, emit)
		}
	}}
}

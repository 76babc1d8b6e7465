package server

import (
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/replicator"
)

// pathProblems tells of records that a path no longer has, while somebody who cannot
// be asked may still have them: nothing of that origin's partition goes on.
func pathProblems(origins []replicator.OriginStatus, problem func(part, state, format string, args ...any)) {
	waiting, example := 0, replicator.OriginStatus{}
	for _, o := range origins {
		if o.Waits != "" {
			waiting, example = waiting+1, o
		}
	}
	if waiting > 0 {
		problem("paths", "waiting", "the paths in use have dropped records that this region lacks, of %d partitions, such as those of origin %s in partition %d of %s: %s. It goes on when that is known, or when the region is removed for good: 'rhumb region remove'",
			waiting, originName(example), example.Partition, example.Topic.Short(), example.Waits)
	}
}

func originName(o replicator.OriginStatus) string {
	if o.OriginName == "" {
		return "a removed region"
	}
	return string(o.OriginName)
}

// paths turns the paths of origins into the API's.
func (s *Server) paths() []admin.OriginPaths {
	if s.room.links == nil {
		return nil
	}
	var out []admin.OriginPaths
	for _, o := range s.room.links.Origins() {
		a := admin.OriginPaths{Topic: o.Topic, Partition: o.Partition, Region: o.Origin, Life: o.Life, Waits: o.Waits, Moved: admin.PathMove(o.Moved)}
		for _, p := range o.Paths {
			a.Paths = append(a.Paths, admin.Path{Over: p.Peer, State: string(p.State), Hops: p.Hops, Since: p.Since, End: p.End, Floor: p.Floor})
		}
		out = append(out, a)
	}
	return out
}

// pathMetrics counts the paths of origins that have several, by what is done with
// them, and the gaps that wait.
func pathMetrics(origins []replicator.OriginStatus, emit func(admin.Metric)) {
	states := map[replicator.PathState]int{}
	waiting := 0
	for _, o := range origins {
		for _, p := range o.Paths {
			states[p.State]++
		}
		if o.Waits != "" {
			waiting++
		}
	}
	for _, s := range []replicator.PathState{replicator.PathUsed, replicator.PathStandby, replicator.PathStalled, replicator.PathDown} {
		emit(admin.Metric{Name: "rhumb_paths", Help: "Paths of origins that could come over several, by state.",
			Labels: []string{"state", string(s)}, Value: float64(states[s])})
	}
	emit(admin.Metric{Name: "rhumb_paths_waiting_gaps", Help: "Gaps that wait until nobody on a path may still have the records.", Value: float64(waiting)})
}

package kafka

import "sync/atomic"

// stats counts what happened to connections since the start.
type stats struct {
	accepted     atomic.Int64
	refused      atomic.Int64 // over a limit
	logins       atomic.Int64
	loginsFailed atomic.Int64
	fetched      atomic.Int64 // bytes of batches
	placed       atomic.Int64 // of these, by place
}

// Stats are figures of a server.
type Stats struct {
	// Connections that are open now.
	Connections int
	// Accepted and Refused count connections since the start; refused ones were
	// over a limit.
	Accepted, Refused int64
	// Logins and LoginsFailed count logins that were taken and refused since the
	// start, those of connections that log in again too.
	Logins, LoginsFailed int64
	// Fetched counts the bytes of batches in answers to fetches since the start,
	// FetchedByPlace those of them that were sent from files without a copy.
	Fetched, FetchedByPlace int64
}

// Stats gives the figures now.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.open)
	s.mu.Unlock()
	return Stats{Connections: open, Accepted: s.stats.accepted.Load(), Refused: s.stats.refused.Load(),
		Logins: s.stats.logins.Load(), LoginsFailed: s.stats.loginsFailed.Load(),
		Fetched: s.stats.fetched.Load(), FetchedByPlace: s.stats.placed.Load()}
}

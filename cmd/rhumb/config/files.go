package config

// What a region keeps of the files that its process may have open, for its log, its
// state, links and HTTP API: half of them, and no more than this many.
const ownFiles = 4096

// FitFiles lowers limits.connections to what a process that may have most files open
// can give to clients (RLIMIT_NOFILE, which Go raises to the hard limit; 0: no limit).
// Clients that take the last file would end the region at its next log file. It reports
// whether it lowered the limit.
func (c *Config) FitFiles(most uint64) bool {
	if most == 0 || most > 1<<31 {
		return false
	}
	left := max(1, int(most)-OwnFiles(most))
	if c.Limits.Connections <= left {
		return false
	}
	c.Limits.Connections = left
	return true
}

// OwnFiles is how many of the files that a process may have open Kafka clients do not
// get. A quarter of them may be connections of the HTTP API.
func OwnFiles(most uint64) int { return int(min(most/2, ownFiles)) }

package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// ConfigStatus is how the answering region stands to the configuration store.
type ConfigStatus struct {
	Region rhumb.RegionName `json:"region"`
	Mesh   rhumb.UUID       `json:"mesh"`
	// State is current, store down, store went back or store of another mesh. In all
	// but the first the last good copy is in force and changes wait or are refused.
	State    string `json:"state"`
	Since    int64  `json:"since,string"`     // in this state
	LastRead int64  `json:"last_read,string"` // that was taken, 0: none since the start
	Error    string `json:"error"`            // why it is not current
	// KeepError is why the last good copy on disk is older than what is in force.
	KeepError string `json:"keep_error"`
	Documents int    `json:"documents"` // with tombstones
	// Digest is equal in regions that have seen the same documents.
	Digest string `json:"digest"`
	// CaughtByReread counts changes that the store's watch did not tell of.
	CaughtByReread uint64          `json:"caught_by_reread,string"`
	Problems       []ConfigProblem `json:"problems"`
}

// ConfigProblem is a document that is not in force as the store has it.
type ConfigProblem struct {
	Key    string `json:"key"`
	Reason string `json:"reason"`
}

// ConfigRestoreRequest asks the region to put its copies back into a store that
// went back.
type ConfigRestoreRequest struct {
	DryRun bool `json:"dry_run"` // say what would be done, and do nothing
}

// ConfigRestore is what was put back, or would be.
type ConfigRestore struct {
	Region   rhumb.RegionName `json:"region"`
	Done     bool             `json:"done"` // false for a dry run
	Restored []ConfigRestored `json:"restored"`
}

// ConfigRestored is a document that was put back, or would be.
type ConfigRestored struct {
	Key   string `json:"key"`
	Had   uint64 `json:"had,string"` // the store's version before, which is lost; 0: none
	HadBy string `json:"had_by"`     // who wrote that
	// HadCaller is on whose behalf; empty: not known.
	HadCaller string `json:"had_caller,omitzero"`
	HadAt     int64  `json:"had_at,string"`  // when, 0: the store had none
	Version   uint64 `json:"version,string"` // after
}

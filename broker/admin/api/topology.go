package api

import (
	"encoding/json"

	"github.com/rhumbmq/rhumb/configstore"
)

// TopologyApply asks to apply a topology file.
type TopologyApply struct {
	// File is the topology file, as JSON.
	File json.RawMessage `json:"file"`
	// Base is that of a plan which must still be true. Absent: whatever is true
	// when the file is applied.
	Base []configstore.PlanBase `json:"base,omitempty"`
}

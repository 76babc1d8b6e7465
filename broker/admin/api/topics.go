package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// TopicSettings is what holds for a topic in the answering region, and where each
// value comes from.
type TopicSettings struct {
	Topic string `json:"topic"` // full name
	// Mesh says that the topic's own settings are the mesh's: they are the same in all
	// regions, and changed in all of them.
	Mesh bool `json:"mesh"`
	// Version of the topic's document in the configuration store, 0 if it has none.
	Version  uint64    `json:"version,string"`
	Settings []Setting `json:"settings"` // by name
}

// Setting is one setting of a topic.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"` // topic, namespace, node, region, file or default
	Effect bool   `json:"effect"` // else it is kept and does nothing
	Doc    string `json:"doc"`
}

// SettingsChange changes settings of a topic, all or none.
type SettingsChange struct {
	Set   map[string]string `json:"set,omitempty"`
	Unset []string          `json:"unset,omitempty"` // the next layer's value holds then
}

// PartitionsChange gives a topic more partitions.
type PartitionsChange struct {
	Partitions int32 `json:"partitions"` // how many it shall have
}

// TopicInRegion is what one region has of a topic.
type TopicInRegion struct {
	Region     rhumb.RegionName  `json:"region"`
	State      string            `json:"state"` // there, being created, absent or not reached
	Error      string            `json:"error,omitempty"`
	Partitions int32             `json:"partitions"`
	Deletions  uint64            `json:"deletions,string"`
	Lives      []rhumb.Life      `json:"lives"` // of the logs, by partition
	Configs    map[string]string `json:"configs"`
}

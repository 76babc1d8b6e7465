// Package topicconf is the one table of settings that Kafka clients and tools
// know by name: of topics, and of nodes. It says their types, defaults and
// bounds, which of them have an effect here, and where a value that holds comes
// from. It knows no protocol and keeps nothing.
//
// # Layers
//
// What holds for a topic is found in this order; the first that says something
// wins:
//
//	topic      its own settings
//	namespace  what its namespace's document says, under the topic's names
//	node       changed at run time, for one node
//	region     changed at run time, for all nodes
//	static     the region's file
//	default    this table
//
// All but the first two know a setting by its node name: log.retention.ms is the
// node's name of retention.ms.
package topicconf

// Package configstore holds what the regions of a mesh agree on: which regions,
// tenants, namespaces and topics exist, and along which edges each namespace
// flows. All validation of these documents lives here and nowhere else.
//
// # Documents
//
// A document is a JSON object under a key of the tree rhumb/v1/:
//
//	mesh                       the mesh's UUID and its highest region number
//	regions/<name>             number, data directory UUID, addresses, CA
//	tenants/<t>                allowed regions
//	namespaces/<t>/<ns>        topology, retention, scope of deletion
//	topics/<t>/<ns>/<topic>    deletion count, partitions, configs
//	users/<user>               grants, verifiers of the password
//
// Each carries version, updated_at and updated_by. A document is never removed:
// deletion is a tombstone (deleted: true) with the next version, so an absent
// document never means a deleted one. Fields that this version does not know
// survive a read-modify-write; a field that belongs to a feature which this
// version lacks is refused, never stored and ignored. Lists have three values:
// absent, empty and explicit.
//
// # Parts
//
// A [Store] keeps documents and knows nothing of what they mean: get, list,
// compare-and-set put, watch. A [Writer] is the only way to change them: it
// reads, edits, validates and puts, again when somebody else was faster. A
// [View] is one region's picture of the store: it survives a store that is
// down, is silent, belongs to another mesh or went back in time.
//
// # Topologies
//
// A [Topology] is a named shape; [Compile] makes edges of it and is pure. A topic's
// document may have one of its own, in place of its namespace's. A [TopologyFile]
// says many documents at once: [Writer.PlanTopology] compares it with what is
// stored, [Writer.ApplyTopology] stores it, one document after the other.
//
// # A store that went back
//
// A View remembers the highest version and the content hash of each document.
// A store that offers a lower version, the same version with other content, or
// nothing at all for a key seen before, went back (it was restored from an old
// copy, say). Then nothing of it is taken, the last good copy stays in force,
// writes are refused, and [Status] names the keys. A store of another mesh is
// refused by UUID in the same way. [View.Restore] puts back what this region saw,
// when an operator says so; a [Store] that can take it is a [Restorer].
//
// A region that was away may have seen no more than such a store has. What peers have
// seen counts, too: [View.Tell] says what to tell them, [View.Hear] takes what they told.
// Then writes are refused until the store has that, and the View goes on following it.
// [View.HearRemoval] takes it from a peer that this region was removed. The removal of a
// peer on whose words writes are refused is let through.
//
// The comparison is sound because the documents of a View are read one list at a
// time, in order: a watch only wakes the reader, so a late delivery of an old
// list is never mistaken for a store that went back. What peers told is compared with
// lists that were read after it.
//
// # Not guaranteed
//
// A put is atomic for one document. A rule that spans documents (a namespace
// names only registered regions) is checked against documents read just before;
// two administrators at once can break it. The View therefore drops each edge
// that the regions and tenants which it has do not allow, and says so.
//
// # Goroutines
//
//	View.Run            re-reads the store at each wake and every RereadEvery;
//	                    started by the caller, ends with its context
//	View.Run watcher    blocks in Store.Watch, wakes the reader; joined by Run
//
// # Lock order
//
// View.reading (one reader of the store) before View.mu (state and subscribers).
// Subscribers are called with View.mu free, and View.reading held but for a removal that
// a peer told of.
package configstore

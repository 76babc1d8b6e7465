// Package server wires one region's rooms into a process: configuration store,
// storage, region, broker, Kafka and HTTP listeners, links. It holds no rules of
// its own; it starts the parts in the order in which they need each other, and
// stops them in the reverse one:
//
//	not ready → Kafka listeners → HTTP listeners → links → broker → region → storage → view → certificates
//
// Files, sockets, store and file system can be handed in, so that the simulation
// runs the same server in virtual time.
//
// # Goroutines
//
// One for each part, from Run until the part's turn to stop; each part lists its
// own. SIGTERM is the caller's business: it ends the context of Run.
package server

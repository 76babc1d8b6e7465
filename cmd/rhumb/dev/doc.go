// Package dev runs a whole mesh on one machine, for people who try Rhumb and
// for tests: `rhumb dev`. The regions are real: each has its own data
// directory, ports, certificate and links. Only the network between them is
// ours: the links of each pair of regions pass through a UDP relay
// (internal/relay), so that `rhumb dev link` can delay, lose, throttle or cut
// them, and `rhumb dev region` kills and starts regions.
//
// A running mesh listens on a unix socket for these commands. The socket's
// default path depends on the user alone, so the commands find the mesh without
// being told where it is.
//
// # Goroutines
//
//	region NAME   runs a region in this process, or waits for its process; ends with it
//	relay A-B     carries datagrams between two regions
//	control       serves the unix socket
//
// All end before Run returns.
package dev

// Package relay is a bad network on demand: it carries datagrams between two
// UDP endpoints and delays, drops, doubles, reorders, throttles or cuts them,
// per direction, as its settings say at that moment. `rhumb dev` and the e2e
// tests put it between regions; tests under virtual time use its [Line] alone.
//
// # Shape
//
//	endpoint A  <->  front of A | line A->B | front of B  <->  endpoint B
//	                            | line B->A |
//
// A relay has two sockets. What arrives on the front of A goes out of the front
// of B to endpoint B, and the other way round; so A is told the address of its
// own front as the address of B. The relay keeps no state per flow: an endpoint
// that dies and comes back on the same address is served on at once.
//
// On Linux, datagrams of one size that came together are taken in one call, and
// those that are due together are sent in one. What happens to each of them is
// decided for each alone.
//
// # Determinism
//
// Each direction draws its luck from its own generator, seeded by the relay's
// seed and the direction. Every datagram takes the same number of draws whatever
// the settings are, so the n-th datagram of a direction meets the same fate in
// each run with the same settings.
//
// # Goroutines
//
//	read A, read B   woken by datagrams; own their read buffer
//	line A->B, B->A  woken by a new datagram or the next one's time; deliver it
//
// All end when the context of Run does.
package relay

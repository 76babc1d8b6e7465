// Package fec puts forward error correction under QUIC: a lost datagram comes back
// from parity before QUIC misses it, so that a long line which loses packets keeps its
// speed (RFC 9002's congestion control takes every loss for a full queue).
//
// # Shape
//
//	quic.Transport ── socket's PacketConn ── UDP socket
//	                    │
//	                    ├─ path (one per peer address that has a session)
//	                    │    ├─ adaptor    measured loss -> strength (pure)
//	                    │    └─ encoder    of the session that sends (pure)
//	                    └─ session (one per QUIC connection)
//	                         └─ decoder    (pure)
//
// Packets of paths without correction pass untouched, with segmentation offload, ECN
// and batched reads: the wrapped socket offers quic-go all that the bare one does. What
// such a path pays is the look at an atomic counter per write and at the first byte of
// each packet that comes. Packets that come together are read together, where the system
// gives them so: see rows.
//
// # Packets
//
// A path that corrects wraps its QUIC packets. Numbers are big endian.
//
//	0      1        4        7       8   9   10
//	+------+--------+--------+-------+---+---+---------------+--------+
//	| type | session| group  | index | a | b | shard         | tag (8)|
//	+------+--------+--------+-------+---+---+---------------+--------+
//
//	type 4, data    index in the group; a: packets of the group before, 0 if unknown;
//	                b: packets of this one if it does not end early;
//	                shard: length (2), QUIC packet
//	type 5, parity  index of the parity; a: data packets, b: parity packets of the group;
//	                shard: as long as the longest of the group
//	type 6, report  number (8), expected (8), received (8), recovered (8) in place of the
//	                shard: data packets since the session began
//	type 7, ask     as a report, padded to the length of the longest packet: is there a
//	                receiver, and does the path carry packets of this length?
//
// QUIC packets have the bit 0x40 of the first byte set, and these do not: both share one
// UDP port. Group is the low 24 bits of a number that grows by one.
//
// Parity is Reed-Solomon by a Cauchy matrix over GF(2^8): as many lost packets of a
// group come back as parity packets are there. Shards shorter than the parity count as
// filled up with zeros, so a group may mix sizes; a group that waits for 5 ms ends
// early.
//
// # Who may
//
// Sessions belong to QUIC connections whose hellos are done; their keys come from the
// TLS connection (RFC 5705), one per direction, and every packet has a MAC. A packet
// with a wrong MAC is dropped; the QUIC packet in one of no session is taken as if it had
// come bare: its connection is of a process before this one, and is told so. Neither costs
// memory. Nothing is ever sent
// but to the address of a session. What decoders keep is bounded per session by 32
// groups and for all together by [MaxKept].
//
// A session is attached before its hello is sent, and begins when the peer's has come: so
// the peer knows it, and the next connection of a path that was corrected is from its
// first packet on. On any other a sender asks first, if it is long while hellos are still
// under way. It corrects only while reports come: a path that does not carry
// these packets, or a peer that stopped, ends it within seconds.
//
// # What turns it on and off
//
// See adaptor: on for the first packets of a path that is not short, and where packets
// are lost while the round trip is near its least; stronger with the loss; off when a
// queue fills, when losses grow with it, when losses come in rows that it does not bring
// back, and when the line is clean.
//
// # Goroutines
//
// Socket.Run (woken by the first packet of a pause and by time while any path has
// parity to send, asks or reports). quic-go's read loop runs the decoders, its senders
// run the encoders.
//
// # Lock order
//
// Socket.mu, then path.mu or session.mu. Both of the latter are held while a packet is
// written: groups stay in order.
package fec

// Package broker is what client protocols share: topics and their automatic
// creation, checks of what producers send, reading with long polls, look-ups by
// time, offsets of groups and producer ids. It knows no wire format; package
// kafka decodes, calls this package and encodes.
//
// # What is checked when
//
// The header of every batch is checked: magic, CRC, counts, sizes, producer
// fields, timestamps. Its records are looked at one by one only where that is
// needed: in compacted topics, which need keys, and where the topic says
// validate=full. So a produce costs a checksum and nothing per record.
//
// # Goroutines
//
// The package starts none. [Appends] is completed by the region's callbacks,
// and a [Fetch] runs in the goroutine that calls Wait.
//
// # Lock order
//
// Appends.mu is a leaf. Topic creation holds no lock while it waits.
package broker

// Package strands spreads one ordered stream of bytes, a lane, over the streams of
// several connections, its strands: so that one partition alone can use them all.
// It is pure: it reads and writes streams that others open, and knows no network.
//
// The sender cuts the lane into pieces. Each piece goes to a strand that has taken its
// last one, so that a slow connection gets less and holds nobody up. The
// receiver puts pieces into order by their numbers. It keeps none of them: what comes
// too early stays in its strand's stream, whose flow control bounds it.
//
// A lane begins with its base alone, and then costs no goroutine and no copy. Its
// sender says in the lane itself that others follow. A strand ends between two pieces,
// and the lane goes on; one that breaks takes the lane with it, and the sessions on it
// go on over another lane, from where the destination stands.
//
// # Bytes
//
// Integers little-endian. Each strand begins with a prologue:
//
//	0  uint32 magic "RMBS"
//	4  uint16 length of the prologue, 16 to 256: a later version may append
//	6  uint16 reserved
//	8  uint64 lane
//
// and then has pieces:
//
//	0  uint32 length of what follows the head, at most 64 KiB; with the highest bit
//	   set it is zero, and says that from here on the lane has several strands
//	4  uint64 number of the piece, from 0 on, each once in a lane, rising in a strand
//	12 bytes of the lane
//
// # Goroutines
//
// Sender: one per strand, once there are several. Receiver: the same. They end with
// their strand; Wait joins them.
package strands

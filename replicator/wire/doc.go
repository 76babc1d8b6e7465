// Package wire holds the frames that two regions exchange over a link. It is
// pure: frames to bytes and back over any io.Writer and io.Reader.
//
// A link has one control stream, which carries [Hello] first and then [Topic],
// [Ping], [Pong], [Pauses], [Want], [Seen] and [Bye], and lanes, which carry sessions: all
// other frames. Frames of one session stay in order because they stay on one lane.
// Between versions that take several connections a lane is spread over their streams
// (package strands); the answers on it go back on its base. A connection that joins
// another one carries [Join] and strands.
//
// # Frame
//
// Integers little-endian, strings a uint16 length and then bytes.
//
//	0  uint32 length of everything after this field
//	4  uint8  type; a reader skips an unknown type from 0x80 on, refuses others
//	5  uint8  flags: 0x01 compressed; high four bits required, others optional
//	6  uint16 header length: where the variable part begins, from byte 0
//	8  fixed part, as the type says
//	   variable part, as the type says
//
// A later version may append to the fixed part, which the header length lets an
// older reader skip, and to the end of the variable part of every frame but
// data. The version of a link is agreed by [Agree] before anything else is sent.
//
// # Fixed parts, from byte 8 on, and variable parts
//
//	 1 hello    uint32 magic "RMBL", uint16 lowest version, uint16 highest version,
//	            uint16 region number, uint16 reserved, 16 B mesh, 16 B data directory,
//	            uint64 optional features, uint64 required features, int64 wall clock µs,
//	            16 B boot id of the process, absent from older versions, 16 B name of the
//	            connection, uint16 connections that the side takes, both absent from older
//	            versions | region name, version of the program, absent from older versions
//	 2 bye      uint8 error kind | text
//	 3 topic    uint64 deletions, int32 partitions, uint16 number of configs
//	            | tenant, namespace, name, then key and value of each config, keys rising
//	 4 ping     uint64 number, int64 wall clock µs
//	 5 pong     uint64 number, int64 the ping's clock, int64 wall clock µs
//	 6 join     16 B name of a connection, uint16 number of this one
//	16 open     uint64 session, uint64 deletions, int64 head, int32 partition,
//	            uint16 origin region, uint16 flags: 1 alone, 16 B origin life
//	            | tenant, namespace, name, producer name, then if it probes:
//	            uint16 number, int64 origin offset each
//	17 state    uint64 session, uint32 window in bytes | encoded dedup.Watermark,
//	            then if probed: uint16 number, int64 offset and uint64 chain each
//	18 data     uint64 session, uint32 round, uint32 reserved, int64 head
//	            | envelope, batch (snappy block format if the frame is compressed)
//	19 skip     uint64 session, uint32 round, uint8 reason, 3 B reserved,
//	            int64 from, int64 to, uint64 chain at to, int64 head
//	            | by whom, if a person ordered it
//	20 gap      as skip
//	21 confirm  uint64 session, int64 watermark, uint64 chain there
//	22 refuse   uint64 session, uint32 round, uint8 code, 3 B reserved,
//	            int64 watermark, uint64 chain there | text
//	23 close    uint64 session, uint8 code | text
//	128 pauses  uint16 number | of each: tenant, namespace, int64 ms, by whom; control stream
//	129 want    uint16 connections; control stream
//	130 seen    int64 since ms, uint64 changes, uint16 number
//	            | of each: key, uint64 version, 16 B of the content's hash; control stream
//
// *Head* is the first origin offset that may not leave the source yet: what the
// receiver compares with its watermark to know the lag. *Round* grows with each
// rewind of a session, so that what was sent before it can be told apart.
//
// # Closes
//
// A connection that one side will not have is closed with a code and a text for people:
//
//	3 refused  the hello is refused
//	6 twice    as refused: another process of the region has the link
//	8 removed  as refused: the region was removed from the mesh. The text begins with the
//	           evidence, see [Removed]. A peer whose hello does not have feature 16 gets 3
//
// The batch carries its own CRC and the envelope carries one over itself and the
// batch's header; the frame has none, since QUIC protects it on its way.
package wire

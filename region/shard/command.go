package shard

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// The frames of entries and commands are drawn in doc.go.
const (
	entryMagic         = 0xC7
	entryVersion       = 1
	entryHeaderSize    = 32
	commandHeaderSize  = 8
	maxHeaderSize      = 1024
	maxCommands        = 1 << 20
	commandRequired    = 0x80 // a flag bit that a reader must know
	maxEntryBytes      = codec.MaxBatchSize + 1<<20
	minCommandsPerByte = commandHeaderSize
)

// kind says what a command does. Values are stored: add only at the end.
type kind uint8

const (
	kindAppend          kind = 1
	kindLink            kind = 2
	kindSkip            kind = 3
	kindLogStart        kind = 4
	kindEdgeStart       kind = 5
	kindExpireProducers kind = 6
	kindCreatePartition kind = 7
	kindDropTopic       kind = 8
	kindCommitOffsets   kind = 9
	kindDeleteOffsets   kind = 10
	kindPutGroup        kind = 11
	kindCreateTopic     kind = 12
	kindGrowTopic       kind = 13
	kindDeleteTopic     kind = 14
	kindSetConfigs      kind = 15
	kindPartitionReady  kind = 16
	kindTopicGone       kind = 17
	kindInitRegion      kind = 18
	kindProducerBlock   kind = 19
	kindPutSettings     kind = 20
	kindNewLife         kind = 21
	kindDeleteHere      kind = 22
)

// entryHeader is the fixed part of an entry's data.
type entryHeader struct {
	commands uint32
	epoch    uint64 // term in which the leader proposed it
	time     int64  // leader's clock in ms, never below the entry before
}

func appendEntryHeader(b []byte, h entryHeader) []byte {
	b = append(b, entryMagic, entryVersion)
	b = binary.LittleEndian.AppendUint16(b, entryHeaderSize)
	b = binary.LittleEndian.AppendUint32(b, h.commands)
	b = binary.LittleEndian.AppendUint64(b, h.epoch)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.time))
	return binary.LittleEndian.AppendUint64(b, 0)
}

// appendCommandHeader starts a command whose body has size bytes.
func appendCommandHeader(b []byte, k kind, size int) []byte {
	b = append(b, byte(k), 0)
	b = binary.LittleEndian.AppendUint16(b, commandHeaderSize)
	return binary.LittleEndian.AppendUint32(b, uint32(size))
}

// appendCommand adds a control command to an entry.
func appendCommand(b []byte, c command) []byte {
	at := len(b)
	b = appendCommandHeader(b, c.kind(), 0)
	b = c.append(b)
	binary.LittleEndian.PutUint32(b[at+4:], uint32(len(b)-at-commandHeaderSize))
	return b
}

// parseEntry reads the header of an entry's data. Errors are of kind corrupt,
// or unsupported if a newer version must be there to read it.
func parseEntry(data []byte) (h entryHeader, rest int, err error) {
	if len(data) < entryHeaderSize || data[0] != entryMagic {
		return h, 0, rhumb.Errorf(rhumb.KindCorrupt, "shard: entry of %d bytes has no header", len(data))
	}
	le := binary.LittleEndian
	size := int(le.Uint16(data[2:]))
	h.commands = le.Uint32(data[4:])
	h.epoch = le.Uint64(data[8:])
	h.time = int64(le.Uint64(data[16:]))
	switch {
	case le.Uint64(data[24:]) != 0:
		return h, 0, rhumb.Errorf(rhumb.KindUnsupported, "shard: entry of version %d needs a newer reader", data[1])
	case size < entryHeaderSize || size > maxHeaderSize || size > len(data):
		return h, 0, rhumb.Errorf(rhumb.KindCorrupt, "shard: entry header of %d bytes", size)
	case h.commands > maxCommands || int(h.commands) > (len(data)-size)/minCommandsPerByte:
		return h, 0, rhumb.Errorf(rhumb.KindCorrupt, "shard: %d commands in %d bytes", h.commands, len(data))
	}
	return h, size, nil
}

// parseCommand reads the command at position at of an entry's data. The body is
// data[body:next].
func parseCommand(data []byte, at int) (k kind, body, next int, err error) {
	if len(data)-at < commandHeaderSize {
		return 0, 0, 0, rhumb.Errorf(rhumb.KindCorrupt, "shard: entry ends in a command header at %d", at)
	}
	le := binary.LittleEndian
	size, n := int(le.Uint16(data[at+2:])), int64(le.Uint32(data[at+4:]))
	switch {
	case data[at+1]&commandRequired != 0:
		return 0, 0, 0, rhumb.Errorf(rhumb.KindUnsupported, "shard: command %d with flags %#x needs a newer reader", data[at], data[at+1])
	case size < commandHeaderSize || size > maxHeaderSize || int64(at)+int64(size)+n > int64(len(data)):
		return 0, 0, 0, rhumb.Errorf(rhumb.KindCorrupt, "shard: command of %d bytes at %d does not fit %d", n, at, len(data))
	}
	body = at + size
	return kind(data[at]), body, body + int(n), nil
}

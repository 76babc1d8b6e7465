package index

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	// HeaderSize is the length of a table file's header as this version writes it.
	HeaderSize = 32
	// FooterSize is the length of the footer, at the very end of the file.
	FooterSize = 64

	footerMagic = "RIDXFOOT"
)

// Magic tells the two kinds of table files apart.
type Magic [8]byte

// The kinds of table files: the index of an adopted log file, and a segment.
var (
	MagicIndex   = Magic([]byte("RHUMBIDX"))
	MagicSegment = Magic([]byte("RHUMBSEG"))
)

// AppendHeader encodes a file header behind dst.
func AppendHeader(dst []byte, magic Magic, file uint64) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = append(dst, magic[:]...)
	dst = append(dst, formatVersion, 0)
	dst = le.AppendUint16(dst, HeaderSize)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, file)
	dst = le.AppendUint32(dst, 0)
	return le.AppendUint32(dst, codec.Checksum(dst[at:]))
}

// ParseHeader decodes a file header of that magic.
func ParseHeader(b []byte, magic Magic) (file uint64, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) < HeaderSize || Magic(b[:8]) != magic || le.Uint16(b[10:]) < HeaderSize:
		return 0, corruptf("header: not of kind %s", magic[:])
	case codec.Checksum(b[:28]) != le.Uint32(b[28:]):
		return 0, corruptf("header: CRC does not match")
	case b[9] != 0:
		return 0, rhumb.Errorf(rhumb.KindUnsupported, "index: file of version %d, flags %#x needs a newer reader", b[8], b[9])
	}
	return le.Uint64(b[16:]), nil
}

// Footer ends a table file and finds its directory.
type Footer struct {
	DirectoryCRC uint32
	DirectoryPos uint64
	DirectoryLen uint64
	FirstBlock   uint64
	Batches      uint64
}

func (f *Footer) append(dst []byte) []byte {
	le := binary.LittleEndian
	at := len(dst)
	dst = append(dst, footerMagic...)
	dst = append(dst, formatVersion, 0)
	dst = le.AppendUint16(dst, FooterSize)
	dst = le.AppendUint32(dst, f.DirectoryCRC)
	dst = le.AppendUint64(dst, f.DirectoryPos)
	dst = le.AppendUint64(dst, f.DirectoryLen)
	dst = le.AppendUint64(dst, f.FirstBlock)
	dst = le.AppendUint64(dst, f.Batches)
	dst = append(dst, make([]byte, 12)...)
	return le.AppendUint32(dst, codec.Checksum(dst[at:]))
}

// ParseFooter decodes the footer of a file of that size: its last [FooterSize] bytes.
func ParseFooter(b []byte, size int64) (f Footer, err error) {
	le := binary.LittleEndian
	switch {
	case len(b) != FooterSize || string(b[:8]) != footerMagic:
		return f, corruptf("footer: none in the last %d bytes", len(b))
	case codec.Checksum(b[:60]) != le.Uint32(b[60:]):
		return f, corruptf("footer: CRC does not match")
	case b[9] != 0:
		return f, rhumb.Errorf(rhumb.KindUnsupported, "index: file of version %d, flags %#x needs a newer reader", b[8], b[9])
	}
	f = Footer{le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:]), le.Uint64(b[40:])}
	if f.DirectoryLen > maxDirectorySize || f.DirectoryPos > uint64(size) || f.DirectoryPos+f.DirectoryLen > uint64(size)-FooterSize {
		return f, corruptf("footer: directory of %d bytes at %d lies outside of %d bytes", f.DirectoryLen, f.DirectoryPos, size)
	}
	return f, nil
}

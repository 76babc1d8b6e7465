package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"sync"
)

// searchHeadless is how far into a file without a header frames are looked for. A
// file that was only preallocated has none, and need not be read to its end.
const searchHeadless = maxRound

// maxTried bounds how many bytes of what may be frames are looked at in that search:
// whatever a damaged file holds, opening it does not take for ever.
const maxTried = 16 * maxRound

// traces is what a file without a header of its own shows of having been written.
type traces struct {
	end  int64 // of the last trace; 0 if there is none: the file was prepared, not begun
	mark Mark  // the highest in its frames: how far the log was flushed
}

// readTraces looks at a file whose header is not there, or is the one of an earlier
// life of a file that is used again. If its frames reached the disk, they tell
// whether their header had been flushed, and so was damaged, or was torn.
func readTraces(r io.ReaderAt, h *head) (traces, error) {
	s := &scanner{r: r, size: h.size, seed: h.seed()}
	block, err := s.window(0, framesStart)
	if err != nil {
		return traces{}, err
	}
	if h.id == 0 {
		return findTraces(s, len(bytes.Trim(block, "\x00")) > 0)
	}
	// A new life begins with its checkpoint frame, over the one of the old life.
	if _, err := s.header(framesStart); err != errNoFrame {
		return traces{}, ignoreTorn(err)
	}
	if _, ok, err := s.adoptSeed(framesStart); !ok {
		return traces{}, err
	}
	return s.traces(framesStart)
}

// findTraces looks for the first frame. dirty tells if the header's place is not empty.
func findTraces(s *scanner, dirty bool) (t traces, err error) {
	if dirty {
		t.end = framesStart
	}
	tried := int64(0)
	for pos := int64(framesStart); pos < min(s.size, searchHeadless) && tried < maxTried; {
		b, err := s.window(pos, windowSize)
		if err != nil {
			return t, err
		}
		i := bytes.Index(b, []byte(frameMagic))
		if i < 0 {
			pos = aligned(pos + max(int64(len(b)-len(frameMagic)+1), 1))
			continue
		}
		if pos = aligned(pos + int64(i)); i%frameAlign != 0 {
			continue
		}
		size, ok, err := s.adoptSeed(pos)
		if err != nil {
			return t, err
		}
		if ok {
			return s.traces(pos)
		}
		tried += size
		pos += frameAlign
	}
	return t, nil
}

// traces reads what is to be found with the scanner's seed from pos on.
func (s *scanner) traces(pos int64) (traces, error) {
	r, err := s.scan(pos, func(int64, *frameHeader, []byte) error { return nil })
	return traces{end: max(r.end, r.beyond), mark: r.mark}, err
}

// adoptSeed makes the scanner's seed the one with which a frame starts at pos, and
// tells if one does: the checksum of its header can be run backwards, that of its
// body has no seed. size is how much it looked at.
func (s *scanner) adoptSeed(pos int64) (size int64, ok bool, err error) {
	b, err := s.window(pos, frameHeaderMax)
	if err != nil || len(b) < frameHeaderSize || string(b[:4]) != frameMagic {
		return 0, false, err
	}
	size = int64(binary.LittleEndian.Uint16(b[18:]))
	if size < frameHeaderSize || size > int64(len(b)) {
		return 0, false, nil
	}
	s.seed = frameSeed(pos, b[:size])
	h, err := s.header(pos)
	if err != nil {
		return size, false, ignoreTorn(err)
	}
	body, err := s.body(&h, pos)
	return h.size, err == nil && h.checkBody(body) == nil, err
}

// ignoreTorn gives nil for what scanner.header says of damage.
func ignoreTorn(err error) error {
	if err == errNoFrame || err == errTornBody {
		return nil
	}
	return err
}

// frameSeed gives the seed with which a frame's header at pos has its checksum.
func frameSeed(pos int64, header []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], uint64(pos))
	return uncheck(uncheck(binary.LittleEndian.Uint32(header[4:]), header[8:]), at[:])
}

// uncheck gives the checksum before data was added to it.
func uncheck(crc uint32, data []byte) uint32 {
	table, back := crc32.MakeTable(crc32.Castagnoli), backwards()
	crc = ^crc
	for i := len(data) - 1; i >= 0; i-- {
		n := back[crc>>24]
		crc = (crc^table[n])<<8 | uint32(n^data[i])
	}
	return ^crc
}

// backwards tells which value of the checksum's table has a highest byte. One step
// forward is crc = table[n] ^ crc>>8 with n = byte(crc) ^ data: the highest byte is
// that of table[n] alone, and no two of them are the same.
var backwards = sync.OnceValue(func() (back [256]byte) {
	for n, v := range crc32.MakeTable(crc32.Castagnoli) {
		back[v>>24] = byte(n)
	}
	return back
})

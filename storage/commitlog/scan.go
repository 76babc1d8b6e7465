package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// windowSize is how much a scan reads at once.
const windowSize = 256 << 10

// scanner reads frames of one file.
type scanner struct {
	r    io.ReaderAt
	size int64
	seed uint32
	few  bool // read no more than is asked for
	buf  []byte
	at   int64 // of buf in the file
}

// window gives up to n bytes from pos on, fewer only at the end of the file. They
// are valid until the next call.
func (s *scanner) window(pos, n int64) ([]byte, error) {
	if n = min(n, s.size-pos); n <= 0 {
		return nil, nil
	}
	if pos < s.at || pos+n > s.at+int64(len(s.buf)) {
		want := n
		if !s.few {
			want = min(max(n, windowSize), s.size-pos)
		}
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.buf, s.at = s.buf[:want], pos
		if k, err := s.r.ReadAt(s.buf, pos); int64(k) < want {
			s.buf = s.buf[:k]
			if err != io.EOF {
				return nil, err
			}
		}
	}
	from := pos - s.at
	return s.buf[from:min(from+n, int64(len(s.buf)))], nil
}

// header reads the frame header at pos; errNoFrame if there is none, or none that
// fits the file.
func (s *scanner) header(pos int64) (frameHeader, error) {
	b, err := s.window(pos, frameHeaderMax)
	if err != nil {
		return frameHeader{}, err
	}
	h, err := parseFrameHeader(b, s.seed, pos)
	if err == nil && pos+h.size > s.size {
		// The header got to disk, the size of the file did not: its body is torn.
		return h, errTornBody
	}
	return h, err
}

var errTornBody = errors.New("frame ends behind the file")

// body reads the frame's body, valid until the next call.
func (s *scanner) body(h *frameHeader, pos int64) ([]byte, error) {
	return s.window(pos+int64(h.headerLen), h.size-int64(h.headerLen))
}

// findHeader gives the first intact frame header at or after pos; errNoFrame if
// there is none.
func (s *scanner) findHeader(pos int64) (int64, frameHeader, error) {
	for pos = aligned(pos); pos < s.size; {
		b, err := s.window(pos, windowSize)
		if err != nil {
			return 0, frameHeader{}, err
		}
		i := bytes.Index(b, []byte(frameMagic))
		switch {
		case i < 0 && pos+int64(len(b)) >= s.size:
			return 0, frameHeader{}, errNoFrame
		case i < 0:
			pos = aligned(pos + int64(len(b)) - int64(len(frameMagic)) + 1)
			continue
		}
		pos += int64(i)
		if pos == aligned(pos) {
			h, err := s.header(pos)
			if err != errNoFrame {
				if err == errTornBody {
					err = nil
				}
				return pos, h, err
			}
		}
		pos = aligned(pos + 1)
	}
	return 0, frameHeader{}, errNoFrame
}

// run is what a scan found in one file.
type run struct {
	end     int64         // of the frames that are intact from the start on
	reason  string        // what is wrong there, if something else follows
	shard   rhumb.ShardID // of the damaged frame
	isShard bool
	beyond  int64 // end of the last thing behind end that was a frame's header; 0 if none
	mark    Mark  // the highest in any intact header
}

// scan walks from the first frame to the first that is not intact, calls fn for
// each, then looks for what is behind it. fn's body is valid during the call; an
// error of fn ends the scan.
func (s *scanner) scan(from int64, fn func(pos int64, h *frameHeader, body []byte) error) (run, error) {
	r := run{end: from}
	for {
		h, err := s.header(r.end)
		if err == errNoFrame {
			break
		}
		if err != nil && err != errTornBody {
			return r, err
		}
		r.see(&h)
		bad := err
		if bad == nil {
			body, err := s.body(&h, r.end)
			if err != nil {
				return r, err
			}
			if bad = h.checkBody(body); bad == nil {
				if err := fn(r.end, &h, body); err != nil {
					return r, err
				}
				r.end = aligned(r.end + h.size)
				continue
			}
		}
		r.reason, r.shard, r.isShard = bad.Error(), h.shard, true
		r.beyond = r.end + h.size
		break
	}
	for pos := r.end + frameAlign; ; {
		at, h, err := s.findHeader(pos)
		if err == errNoFrame {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		r.see(&h)
		r.beyond = max(r.beyond, at+h.size)
		if r.reason == "" {
			r.reason = fmt.Sprintf("no frame, but one follows at %d", at)
		}
		pos = at + frameAlign
	}
}

func (r *run) see(h *frameHeader) {
	if r.mark.Less(h.mark) {
		r.mark = h.mark
	}
}

// FileReport is what [ScanFile] says of a file.
type FileReport struct {
	ID     uint64
	Prev   Mark  // the file before, and where its frames end
	Size   int64 // of the file
	End    int64 // of the intact frames; 0 if the file has no header
	Mark   Mark  // the highest flushed mark in the file: it may name an earlier file
	Beyond int64 // if not 0, something that was a frame stands behind End, up to here
	Reason string
}

// ScanFile reads one file of a log, which may be damaged or in use, changes
// nothing, and calls fn for each intact frame. It is for tools: what a whole log
// makes of the file is decided by [Open]. Frames that fn gets are its own. A file
// without a header is as [Open] sees it, too: prepared, and not begun, if there is
// nothing Beyond.
func ScanFile(fs vfs.FS, path string, fn func(pos int64, f *Frame, locs []Location) error) (FileReport, error) {
	h, err := readHead(fs, path)
	if err != nil {
		return FileReport{}, err
	}
	f, err := fs.Open(path)
	if err != nil {
		return FileReport{}, err
	}
	defer f.Close()
	if !h.started {
		t, err := readTraces(f, h)
		rep := FileReport{ID: h.name, Size: h.size, Mark: t.mark, Beyond: t.end}
		if t.end > 0 {
			rep.Reason = "no file header"
		}
		return rep, err
	}
	s := &scanner{r: f, size: h.size, seed: h.seed()}
	r, err := s.scan(framesStart, func(pos int64, fh *frameHeader, body []byte) error {
		frame, locs, err := decodeBody(fh, bytes.Clone(body), h.id, pos)
		if err != nil {
			return &CorruptError{File: path, ID: h.id, Pos: pos, Shard: fh.shard, IsShard: true, Reason: err.Error()}
		}
		return fn(pos, frame, locs)
	})
	return FileReport{ID: h.id, Prev: h.prev, Size: h.size, End: r.end, Mark: r.mark, Beyond: r.beyond, Reason: r.reason}, err
}

package wire

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/s2"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const (
	readBuffer = 64 << 10

	// keptScratch is the largest buffer that a reader keeps between frames.
	keptScratch = 1 << 20

	// maxCompressed is the largest batch that may come compressed: the reader
	// needs a second buffer of up to that size meanwhile. Writers stay far below.
	maxCompressed = 16 << 20

	// envelopeBatchSize is where an envelope holds the length of its batch.
	envelopeBatchSize = 76
)

// Budget bounds the memory of the batches that are on their way through a node.
type Budget interface {
	// Reserve takes bytes. It may wait for them, or give an error, which ends
	// the reading.
	Reserve(bytes int) error
	// Release gives bytes back. The reader calls it only for what it could not
	// deliver.
	Release(bytes int)
}

// Reader reads frames. It is for one goroutine.
type Reader struct {
	r       *bufio.Reader
	budget  Budget
	scratch []byte

	fixed, variable cursor // of the frame that is decoded
}

// NewReader makes a reader. It reserves [Data.Size] bytes before it allocates
// the memory of a batch (nil: no limit); who gets the frame releases them.
func NewReader(r io.Reader, budget Budget) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, readBuffer), budget: budget}
}

// Next reads the next frame; optional frames of later versions are passed over.
// The frame belongs to the caller. It gives io.EOF at the end of the stream
// between two frames. After any other error the stream is of no use any more;
// kinds are too large, corrupt, unsupported, or none if reading failed.
func (r *Reader) Next() (Frame, error) {
	for {
		b, err := r.r.Peek(headerSize)
		if err != nil {
			if len(b) > 0 {
				err = whole(err)
			}
			return nil, err
		}
		h, err := parseHead(b)
		switch {
		case err != nil:
			return nil, err
		case h.kind == TypeData:
			return r.data(h)
		case h.kind >= firstOptional && newFrame(h.kind) == nil:
			if _, err := r.r.Discard(h.length); err != nil {
				return nil, whole(err)
			}
			continue
		}
		body := r.buffer(h.length)
		if _, err := io.ReadFull(r.r, body); err != nil {
			return nil, whole(err)
		}
		return r.decode(h, body)
	}
}

// decode reads one whole frame other than data. The frame keeps nothing of b.
func (r *Reader) decode(h head, b []byte) (Frame, error) {
	f := newFrame(h.kind)
	if f == nil {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "wire: unknown frame type %d", uint8(h.kind))
	}
	r.fixed, r.variable = cursor{b: b[headerSize:h.header]}, cursor{b: b[h.header:]}
	f.decode(&r.fixed, &r.variable)
	if f.Type() != h.kind {
		r.fixed.fail("does not agree with its own type")
	}
	if err := r.wrong(h.kind); err != nil {
		return nil, err
	}
	return f, nil
}

// wrong gives what was wrong with the frame that was decoded last.
func (r *Reader) wrong(t Type) error {
	if r.fixed.wrong == "" && r.variable.wrong == "" {
		return nil
	}
	return rhumb.Errorf(rhumb.KindCorrupt, "wire: %s frame %s", t, cmp.Or(r.fixed.wrong, r.variable.wrong))
}

// buffer gives a buffer that is good until the next frame.
func (r *Reader) buffer(n int) []byte {
	if n > keptScratch {
		return make([]byte, n)
	}
	if cap(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	return r.scratch[:n]
}

// data reads a data frame into memory of its own.
func (r *Reader) data(h head) (Frame, error) {
	if h.length < h.header+codec.EnvelopeSize {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "wire: data frame of %d bytes", h.length)
	}
	top, err := r.r.Peek(h.header + codec.EnvelopeSize)
	if err != nil {
		return nil, whole(err)
	}
	f := &Data{}
	r.fixed, r.variable = cursor{b: top[headerSize:h.header]}, cursor{}
	f.decodeFixed(&r.fixed)
	if err := r.wrong(h.kind); err != nil {
		return nil, err
	}
	c := dataContent{
		wire:       h.length - h.header,
		envelope:   int(binary.LittleEndian.Uint16(top[h.header+2:])),
		batch:      int(binary.LittleEndian.Uint32(top[h.header+envelopeBatchSize:])),
		compressed: h.flags&flagCompressed != 0,
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if _, err := r.r.Discard(h.header); err != nil {
		return nil, whole(err)
	}
	if r.budget != nil {
		if err := r.budget.Reserve(codec.EnvelopeSize + c.batch); err != nil {
			return nil, err
		}
	}
	b, err := r.content(c)
	if err == nil {
		r.variable.b = b
		f.decodeContent(&r.variable)
		err = r.wrong(h.kind)
	}
	r.variable = cursor{} // it would hold the batch until the next frame
	if err == nil {
		return f, nil
	}
	if r.budget != nil {
		r.budget.Release(codec.EnvelopeSize + c.batch)
	}
	return nil, err
}

// dataContent is what a data frame says about its variable part, in bytes.
type dataContent struct {
	wire       int // of all of it as it comes
	envelope   int
	batch      int // uncompressed
	compressed bool
}

// check bounds the sizes before anything is allocated.
func (c dataContent) check() error {
	packed := c.wire - c.envelope
	switch {
	case c.envelope < codec.EnvelopeSize || c.envelope > codec.MaxEnvelopeSize:
		return rhumb.Errorf(rhumb.KindCorrupt, "wire: data frame with an envelope of %d bytes", c.envelope)
	case c.batch > codec.MaxBatchSize, c.compressed && c.batch > maxCompressed:
		return rhumb.Errorf(rhumb.KindTooLarge, "wire: data frame with a batch of %d bytes", c.batch)
	case c.compressed && (packed <= 0 || packed >= c.batch), !c.compressed && packed != c.batch:
		return rhumb.Errorf(rhumb.KindCorrupt, "wire: data frame holds %d bytes for a batch of %d", packed, c.batch)
	}
	return nil
}

// content reads envelope and batch and gives both uncompressed.
func (r *Reader) content(c dataContent) ([]byte, error) {
	out := make([]byte, c.envelope+c.batch)
	if !c.compressed {
		_, err := io.ReadFull(r.r, out)
		return out, whole(err)
	}
	in := r.buffer(c.wire)
	if _, err := io.ReadFull(r.r, in); err != nil {
		return nil, whole(err)
	}
	copy(out, in[:c.envelope])
	if size, err := s2.DecodedLen(in[c.envelope:]); err != nil || size != c.batch {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "wire: compressed batch of %d bytes, its envelope says %d", size, c.batch)
	}
	if _, err := s2.Decode(out[c.envelope:], in[c.envelope:]); err != nil {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "wire: compressed batch: %w", err)
	}
	return out, nil
}

// whole makes the end of the stream inside a frame an error.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

package kafka

import "io"

const (
	// streamedFrom is the size from which on the body of a Produce is hashed while it is read: a
	// smaller one is still in the processor's cache when it is all there.
	streamedFrom = 256 << 10
	// streamPiece is how much of it is read at a time.
	streamPiece = 128 << 10
)

// streamReader reads the body of a Produce in small pieces, and hashes them.
type streamReader struct {
	in   io.Reader
	sums *bodySums
	body []byte
	have int // of body
}

// Read implements io.Reader. What it fills must be the body's next bytes.
func (r *streamReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p[:min(len(p), streamPiece)])
	r.have += n
	r.sums.advance(r.body[:r.have])
	return n, err
}

package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reasons to close a connection. Their texts are what the log line says.
var (
	errMalformed  = errors.New("malformed request")
	errForeign    = errors.New("not the kafka protocol")
	errUnknownAPI = errors.New("unknown api or version")
	errTooLarge   = errors.New("request too large")
	errStalled    = errors.New("request comes too slowly")
	errBusy       = errors.New("no room for the request in time")
	errUnread     = errors.New("no room for the answer in time")
	errRefused    = errors.New("request without an answer failed")
	errUnreadable = errors.New("a file could not be read in the middle of an answer")
)

// Factors between a request's bytes and what it holds: while it is decoded (an
// array of short elements may state more of them than there are, before the
// codec notices), and afterwards.
const (
	decodeFactor  = 64
	decodedFactor = 4
)

// A request's first bytes, whose room is reserved before any of it came. When they
// are there, the rest is reserved at once, so that requests which wait for room hold
// little, and never wait for each other. The large ones, which most Produce requests
// fit into, are for a node with much room left.
const (
	firstRead    = 1 << 20 // of a Produce
	firstSmall   = 64 << 10
	firstCareful = 4 << 10
)

// Requests up to smallRequest have a share of the budget that larger ones cannot
// take, so that who asks little does not wait for who sends much, slowly.
const smallRequest = 64 << 10

// While somebody waits for the budget, a request of which less than stallBytes came
// in stallTime (or than what is missing) loses its connection: what it holds is
// needed. Else it has IOTimeout.
const (
	stallTime  = 2 * time.Second
	stallBytes = 4 << 10
)

// prefixSize is length, API key and version: enough to judge a request.
const prefixSize = 8

// minRequest is the shortest request after its length: key, version,
// correlation id, client id.
const minRequest = 10

// request is one request of a client.
type request struct {
	conn        *conn
	api         *api
	version     int16
	correlation int32
	clientID    string
	caller      *caller
	flexible    bool
	raw         bool // a token of SASL without a header
	unsupported bool // ApiVersions of a version above ours: answered, not refused
	arrived     time.Time
	body        []byte    // after the header
	room        *buffer   // that body is in, if nothing of the request outlives it
	sums        *bodySums // of a large Produce
	held        int64     // of the server's request budget
	small       bool      // it may take the share of small requests
	kept        int64     // of its answer budget, for the encoded answer
	appending   bool      // the appends give back what is held, when the region is done with body
}

// hold changes what the request holds of the budget to n, which is not more
// than before.
func (r *request) hold(n int64) {
	if n < r.held {
		r.conn.server.requests.release(r.held-n, r.small)
		r.held = n
	}
}

// release gives back all that the request holds, when its body is not used any
// more.
func (r *request) release() {
	r.hold(0)
	if r.kept > 0 {
		r.conn.server.answers.Release(r.kept)
		r.kept = 0
	}
	r.room.free()
	r.room, r.body = nil, nil
}

// readRequest reads the next request. io.EOF is the stream's orderly end.
func (c *conn) readRequest() (*request, error) {
	if err := c.setReadDeadline(c.server.cfg.IdleTimeout); err != nil {
		return nil, err
	}
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(c.in, prefix[:4]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("%w: ended inside a length", errForeign)
		}
		return nil, err
	}
	until := time.Now().Add(c.server.cfg.IOTimeout)
	if err := c.setReadDeadline(c.server.cfg.IOTimeout); err != nil {
		return nil, err
	}
	size := int64(int32(binary.BigEndian.Uint32(prefix[:])))
	if size < minRequest || size > int64(c.server.cfg.MaxRequest) {
		return nil, c.judgeLength(prefix[:4], size)
	}
	if _, err := io.ReadFull(c.in, prefix[4:]); err != nil {
		return nil, err
	}
	r := &request{conn: c, version: int16(binary.BigEndian.Uint16(prefix[6:]))}
	if err := r.resolve(int16(binary.BigEndian.Uint16(prefix[4:])), size); err != nil {
		return nil, err
	}
	if err := c.admit(r.api.key, size); err != nil {
		return nil, err
	}
	raw, err := c.readBody(r, size-(prefixSize-4), until)
	if err == nil {
		err = r.parseHeader(raw)
	}
	if err == nil {
		r.caller, err = c.caller()
	}
	if err != nil {
		r.release()
		return nil, err
	}
	r.arrived = time.Now()
	return r, nil
}

// resolve finds the API before a byte is reserved for the request.
func (r *request) resolve(key int16, size int64) error {
	r.api = apis[key]
	if r.api == nil {
		return fmt.Errorf("%w: api %d version %d", errUnknownAPI, key, r.version)
	}
	if r.version < r.api.min || r.version > r.api.max {
		if key != apiVersionsKey || r.version < 0 {
			return fmt.Errorf("%w: %s version %d", errUnknownAPI, kmsg.NameForKey(key), r.version)
		}
		r.unsupported = true
	}
	r.flexible = !r.unsupported && r.version >= r.api.flexible
	if limit := r.most(); size > limit {
		return fmt.Errorf("%w: %s of %d bytes, at most %d", errTooLarge, kmsg.NameForKey(key), size, limit)
	}
	return nil
}

// readBody reads n bytes. Room is made when the first of them are there, so that a
// client which only claims to send much holds little: of the room for the rest, the
// system gives only what is written to. Only a Produce's room is used again: what others
// were decoded to may still point into it.
func (c *conn) readBody(r *request, n int64, until time.Time) ([]byte, error) {
	s := c.server
	factor, first := int64(decodedFactor), int64(firstSmall)
	if r.api.key == produceKey {
		factor, first = 1, firstRead
	}
	if !s.requests.has(int64(s.cfg.MaxRequest) + s.requests.share + first*factor) {
		first = firstCareful
	}
	r.small = n <= smallRequest
	if r.api.key == produceKey && n >= streamedFrom {
		r.sums = &bodySums{version: r.version, flexible: r.flexible, size: int(n)}
	}
	var buf []byte
	for have, reserved := int64(0), int64(0); have < n; {
		room := min(n, first)
		if have > 0 {
			room = n
		}
		if more := room - reserved; more > 0 {
			if err := c.reserve(until, more*factor, r.small); err != nil {
				return nil, fmt.Errorf("%w: %d bytes", errBusy, n)
			}
			r.held += more * factor
			reserved += more
		}
		grown := r.grow(buf, room)
		in := io.Reader(c.in)
		if r.sums != nil {
			in = &streamReader{c.in, r.sums, grown, int(have)}
		}
		if err := c.fill(in, grown[have:], until); err != nil {
			return nil, err
		}
		buf, have = grown, room
	}
	return buf, nil
}

// fill reads in until b is full.
func (c *conn) fill(in io.Reader, b []byte, until time.Time) error {
	for {
		wait := min(stallTime, time.Until(until))
		if wait <= 0 {
			return os.ErrDeadlineExceeded
		}
		if err := c.setReadDeadline(wait); err != nil {
			return err
		}
		n, err := io.ReadFull(in, b)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.auth.over():
			return err
		case n < min(stallBytes, len(b)) && c.server.requests.pressed():
			return fmt.Errorf("%w: %d bytes came in %v, and others wait for the room", errStalled, n, stallTime)
		}
		b = b[n:]
	}
}

// reserve takes n bytes of the server's budget, waiting for them until then.
func (c *conn) reserve(until time.Time, n int64, small bool) error {
	if c.server.requests.try(n, small) {
		return nil
	}
	ctx, cancel := context.WithDeadline(c.ctx, until)
	defer cancel()
	return c.server.requests.acquire(ctx, n, small)
}

// grow gives n bytes that start with what buf has.
func (r *request) grow(buf []byte, n int64) []byte {
	if r.api.key != produceKey {
		grown := make([]byte, n)
		copy(grown, buf)
		return grown
	}
	before := r.room
	r.room = newBuffer(n, r.conn.server.rooms)
	copy(r.room.bytes, buf)
	before.free()
	return r.room.bytes
}

// parseHeader reads what follows key and version: correlation id, client id
// (never compact), and tags where the version has them.
func (r *request) parseHeader(raw []byte) error {
	d := decoder{b: raw}
	r.correlation = d.int32()
	if n := d.int16(); n > 0 {
		r.clientID = string(d.bytes(int(n)))
	}
	if r.flexible {
		d.tags()
	}
	if d.bad {
		return fmt.Errorf("%w: header of %s version %d", errMalformed, kmsg.NameForKey(r.api.key), r.version)
	}
	r.body = d.b
	return nil
}

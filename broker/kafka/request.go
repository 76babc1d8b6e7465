package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reasons to close a connection. Their texts are what the log line says.
var (
	errMalformed  = errors.New("malformed request")
	errForeign    = errors.New("not the kafka protocol")
	errUnknownAPI = errors.New("unknown api or version")
	errTooLarge   = errors.New("request too large")
	errBusy       = errors.New("no room for the request in time")
	errUnread     = errors.New("no room for the answer in time")
	errRefused    = errors.New("request without an answer failed")
)

// Factors between a request's bytes and what it holds: while it is decoded (an
// array of short elements may state more of them than there are, before the
// codec notices), and afterwards.
const (
	decodeFactor  = 64
	decodedFactor = 4
)

// firstRead bounds the room that is made for a request before any of it came.
const firstRead = 1 << 20

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
	body        []byte  // after the header
	room        *buffer // that body is in, if nothing of the request outlives it
	held        int64   // of the server's request budget
	kept        int64   // of its answer budget, for the encoded answer
	appending   bool    // the appends give back what is held, when the region is done with body
}

// hold changes what the request holds of the budget to n, which is not more
// than before.
func (r *request) hold(n int64) {
	if n < r.held {
		r.conn.server.requests.Release(r.held - n)
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
	raw, err := c.readBody(r, size-(prefixSize-4))
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
	if limit := r.conn.server.cfg.MaxSmallRequest; key != produceKey && size > int64(limit) {
		return fmt.Errorf("%w: %s of %d bytes, at most %d", errTooLarge, kmsg.NameForKey(key), size, limit)
	}
	return nil
}

// readBody reads n bytes. Room is made and reserved as they arrive, so that a
// client which only claims to send much holds little. Only a Produce's room is
// used again: what others were decoded to may still point into it.
func (c *conn) readBody(r *request, n int64) ([]byte, error) {
	factor := int64(decodeFactor)
	if r.api.key == produceKey {
		factor = 1
	}
	until := time.Now().Add(c.server.cfg.IOTimeout)
	var buf []byte
	for have := int64(0); have < n; {
		room := min(n, max(firstRead, 2*have))
		if err := c.reserve(until, (room-have)*factor); err != nil {
			return nil, fmt.Errorf("%w: %d bytes", errBusy, n)
		}
		r.held += (room - have) * factor
		grown := r.grow(buf, room)
		if _, err := io.ReadFull(c.in, grown[have:]); err != nil {
			return nil, err
		}
		buf, have = grown, room
	}
	return buf, nil
}

// reserve takes n bytes of the server's budget, waiting for them until then.
func (c *conn) reserve(until time.Time, n int64) error {
	if c.server.requests.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithDeadline(c.ctx, until)
	defer cancel()
	return c.server.requests.Acquire(ctx, n)
}

// grow gives n bytes that start with what buf has.
func (r *request) grow(buf []byte, n int64) []byte {
	if r.api.key != produceKey {
		grown := make([]byte, n)
		copy(grown, buf)
		return grown
	}
	before := r.room
	r.room = newBuffer(n)
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

package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker"
)

// placed is a batch that is sent from its file, after so many of an answer's buffers.
type placed struct {
	after int
	place *broker.Place
}

// sendSlice bounds what has to get through within IOTimeout.
const sendSlice = 1 << 20

// errNoSendFile says that the kernel cannot send from this file, and sent nothing.
var errNoSendFile = errors.New("kafka: cannot send from this file")

// send writes one answer: length, correlation id, tags where the version has
// them, body; of a raw token, length and token. ApiVersions never has tags, so
// that any client can read it. After an error nothing more may be sent.
func (c *conn) send(r *request, body net.Buffers, files []placed) error {
	head := make([]byte, 8, 9)
	if r.raw {
		head = head[:4]
	} else if r.flexible && r.api.key != apiVersionsKey {
		head = append(head, 0)
	}
	size := len(head) - 4
	for _, b := range body {
		size += len(b)
	}
	for i := range files {
		size += files[i].place.Size()
	}
	binary.BigEndian.PutUint32(head, uint32(size))
	if !r.raw {
		binary.BigEndian.PutUint32(head[4:], uint32(r.correlation))
	}
	bufs := append(net.Buffers{head}, body...)
	sent, ready := 0, net.Buffers(nil)
	for i := range files {
		n := files[i].after + 1
		ready, sent = append(ready, bufs[sent:n]...), n
		if m := files[i].place.Memory(); m != nil {
			ready = append(ready, m...)
			continue
		}
		if err := c.sendBuffers(ready); err != nil {
			return err
		}
		ready = nil
		if err := c.sendPlace(files[i].place); err != nil {
			return err
		}
	}
	return c.sendBuffers(append(ready, bufs[sent:]...))
}

func (c *conn) sendBuffers(bufs net.Buffers) error {
	for len(bufs) > 0 {
		n, taken := 0, 0
		for n < len(bufs) && taken < sendSlice {
			taken += len(bufs[n])
			n++
		}
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.server.cfg.IOTimeout)); err != nil {
			return err
		}
		if err := writeBuffers(c.nc, bufs[:n]); err != nil {
			return err
		}
		bufs = bufs[n:]
	}
	return nil
}

// writeBuffers hands all to the kernel at once where it can, without a copy. A
// TLS connection would make a record of each buffer, so it gets them joined.
func writeBuffers(nc net.Conn, bufs net.Buffers) error {
	if _, ok := nc.(*net.TCPConn); ok || len(bufs) == 1 {
		_, err := bufs.WriteTo(nc)
		return err
	}
	w := bufio.NewWriterSize(nc, 32<<10)
	for _, b := range bufs {
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Flush()
}

// sendPlace sends a batch from its file, in slices: without a copy where the kernel
// can. The answer's length is out already, so a file that cannot be read ends the
// connection: no wrong byte is sent in its place.
func (c *conn) sendPlace(p *broker.Place) error {
	tcp, _ := c.nc.(*net.TCPConn)
	file, at, ok := p.Conn()
	for done := 0; done < p.Size(); {
		n := min(sendSlice, p.Size()-done)
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.server.cfg.IOTimeout)); err != nil {
			return err
		}
		err := errNoSendFile
		if ok && tcp != nil {
			err = sendFile(tcp, file, at+int64(done), n)
		}
		if err == errNoSendFile {
			ok = false
			err = copyPlace(c.nc, p, done, n)
		}
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// copySize is how much of a file is copied at a time.
const copySize = 64 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// copyPlace sends n bytes of a batch from off on through a buffer.
func copyPlace(w io.Writer, p *broker.Place, off, n int) error {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	for n > 0 {
		b := buf[:min(n, copySize)]
		if got, err := p.ReadAt(b, int64(off)); got < len(b) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%w: %w", errUnreadable, err)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		off, n = off+len(b), n-len(b)
	}
	return nil
}

package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// collector gathers records for one answer until it is large enough. What it reads may
// be small and expand to much, so it takes room for a record only after it has looked
// at the record's size.
type collector struct {
	server    *Server
	topic     rhumb.Topic
	max       int
	name      func(rhumb.RegionNumber) rhumb.RegionName
	partition int32
	from      rhumb.Offset // records below it are not shown, or are in the list already
	limit     rhumb.Offset // flushed end: nothing behind it is shown
	alone     bool         // no other call has anything large in memory: this one may
	bytes     int64
	full      bool
	list      api.RecordList
	err       error

	batch  Batch       // that is read
	record *api.Record // that is being gathered, nil if it is not wanted
	parts  []api.Bytes // of it: key, value, and those of its headers
}

// errFull ends the walk over a batch; errAlone says that what comes next is for a call
// that is alone, and that the answer is still empty.
var (
	errFull  = rhumb.Errorf(rhumb.KindTooLarge, "the answer is full")
	errAlone = rhumb.Errorf(rhumb.KindTooLarge, "more than may be in memory beside other calls")
)

// gather collects an answer, alone if it has to be. What it gives is held.
func (c *collector) gather(r *http.Request, p rhumb.PartitionRef) (*holding, error) {
	held, err := c.server.hold(r, 2*maxConsumeBytes) // a batch, and what comes out of it
	if err != nil {
		return nil, err
	}
	if err = c.collect(p); err == errAlone {
		held.release()
		if held, err = c.server.holdAlone(r); err != nil {
			return nil, err
		}
		c.alone, c.err = true, nil
		err = c.collect(p)
	}
	if err != nil {
		held.release()
		return nil, err
	}
	held.shrink(c.bytes + int64(len(c.list.Records))*recordRoom)
	return held, nil
}

// collect reads a partition until the answer is full or nothing more is there. Alone it
// ends with the first batches that have anything: they may be large.
func (c *collector) collect(p rhumb.PartitionRef) error {
	for !c.full && c.list.Next < c.limit && (!c.alone || len(c.list.Records) == 0) {
		room := ReadRoom{Bytes: readBytes, First: maxConsumeBytes}
		if c.alone {
			room.First = 0
		}
		batches, err := c.server.cfg.Logs.Read(p, c.list.Next, room)
		if _, large := errors.AsType[*LargeBatchError](err); large {
			err = c.large()
		}
		if err == errFull {
			return nil
		}
		if err != nil {
			return err
		}
		if !c.take(batches) {
			break
		}
	}
	return c.err
}

// large is the error of what only a call that is alone reads: the answer ends before it.
func (c *collector) large() error {
	if len(c.list.Records) > 0 {
		c.full = true
		return errFull
	}
	return errAlone
}

// take adds the records of batches; false means that there is no more to read.
func (c *collector) take(batches []Batch) bool {
	for _, b := range batches {
		if b.Base >= c.limit || c.full || c.err != nil {
			return false
		}
		h, err := codec.ParseBatch(b.Bytes)
		end := b.Base + rhumb.Offset(h.LastOffsetDelta) + 1
		if err == nil && h.Attributes&codec.AttrControl == 0 {
			err = c.records(b, end)
		}
		switch {
		case err == nil:
			c.list.Next = max(c.list.Next, end)
			continue
		case err == errFull:
		case rhumb.KindOf(err) == rhumb.KindTooLarge:
			c.err = err // which says where
		default:
			c.err = rhumb.Errorf(rhumb.KindCorrupt, "offset %d: %w", b.Base, err)
		}
		return false
	}
	return len(batches) > 0
}

// records adds the records of a batch that ends before end.
func (c *collector) records(b Batch, end rhumb.Offset) error {
	if !c.alone && codec.LargestBlock(b.Bytes) > maxConsumeBytes {
		return c.large()
	}
	c.batch = b
	err := c.server.eachRecord(b.Bytes, c, c.add)
	if rhumb.KindOf(err) == rhumb.KindTooLarge && err != errFull && err != errAlone && !errors.Is(err, errNotShown) {
		return c.notShown(max(b.Base, c.from), end, err.Error())
	}
	return err
}

// errNotShown is in the error of what no answer shows.
var errNotShown = errors.New("read it with a Kafka client")

// notShown is the error of a record, or of the rest of a batch, at an offset, which is too
// large for any answer, and says where to go on. What comes before it is given first.
func (c *collector) notShown(at, next rhumb.Offset, what string) error {
	if len(c.list.Records) > 0 {
		c.full, c.list.Next = true, at
		return errFull
	}
	return rhumb.Errorf(rhumb.KindTooLarge, "offset %d: %s: %w, or go on behind it with from=%d ('rhumb consume %s --partition %d --from %d')",
		at, what, errNotShown, next, c.topic.Short(), c.partition, next)
}

// Begin implements [codec.Parts].
func (c *collector) Begin(s codec.Stamp, size int64) error {
	c.record, c.parts = nil, c.parts[:0]
	at := c.batch.Base + rhumb.Offset(s.Delta)
	switch {
	case at < c.from:
		return nil
	case len(c.list.Records) >= c.max || len(c.list.Records) > 0 && c.bytes+size > maxConsumeBytes:
		c.full, c.list.Next = true, at
		return errFull
	case size > maxConsumeRecord:
		return c.notShown(at, at+1, fmt.Sprintf("a record of %d MiB, and the HTTP API shows records of up to %d MiB", size>>20, maxConsumeRecord>>20))
	case size > maxConsumeBytes && !c.alone:
		return errAlone
	}
	c.bytes += size
	c.record = &api.Record{Partition: c.partition, Offset: at, Timestamp: s.Timestamp, Headers: []api.Header{},
		Origin: api.RecordOrigin{Region: c.batch.Region, RegionName: c.name(c.batch.Region), Life: c.batch.Life, Offset: c.batch.First + rhumb.Offset(s.Delta)}}
	return nil
}

// Headers implements [codec.Parts].
func (c *collector) Headers(n int64) error {
	if c.record != nil {
		c.bytes += n * headerRoom
	}
	return nil
}

// Part implements [codec.Parts].
func (c *collector) Part(length int64) {
	switch {
	case c.record == nil:
	case length < 0:
		c.parts = append(c.parts, nil)
	default:
		c.parts = append(c.parts, make(api.Bytes, 0, length))
	}
}

// Write implements [codec.Parts].
func (c *collector) Write(b []byte) (int, error) {
	if c.record != nil {
		part := &c.parts[len(c.parts)-1]
		*part = append(*part, b...)
	}
	return len(b), nil
}

// add puts the record that was gathered into the answer.
func (c *collector) add(codec.Stamp) error {
	if c.record == nil {
		return nil
	}
	c.record.Key, c.record.Value = c.parts[0], c.parts[1]
	for i := 2; i < len(c.parts); i += 2 {
		c.record.Headers = append(c.record.Headers, api.Header{Key: string(c.parts[i]), Value: c.parts[i+1]})
	}
	c.list.Records = append(c.list.Records, *c.record)
	c.from = c.record.Offset + 1
	clear(c.parts)
	if c.bytes > maxConsumeBytes {
		c.full, c.list.Next = true, c.from
		return errFull
	}
	return nil
}

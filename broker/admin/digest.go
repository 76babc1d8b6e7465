package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Bytes of a batch: the CRC covers all from crcStart on; the base offset and the
// leader epoch, which each region patches, lie before hashStart.
const (
	hashStart = 16
	crcStart  = 21
)

// digest answers GET …/digest.
func (s *Server) digest(w http.ResponseWriter, r *http.Request) error {
	t, _, p, err := s.partitionOf(r)
	if err != nil {
		return err
	}
	q, err := digestQuery(r.URL.Query())
	if err != nil {
		return err
	}
	st, there := s.cfg.Logs.State(p.Ref)
	if !there {
		return rhumb.Errorf(rhumb.KindUnavailable, "topic %s: the partition is not open here now", t.Name.Short())
	}
	if !q.Log.IsZero() && q.Log != st.Life {
		return rhumb.Errorf(rhumb.KindFenced, "topic %s: the log's life is %s now, no longer %s: take its state anew", t.Name.Short(), st.Life, q.Log)
	}
	select {
	case s.digests <- struct{}{}:
		defer func() { <-s.digests }()
	default:
		return rhumb.Errorf(rhumb.KindUnavailable, "%d digests are being made already", maxDigests)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	d := &digester{s: s, ref: p.Ref, q: q, end: st.End, out: json.NewEncoder(w), w: w, r: r}
	if err := d.run(st.LogStart); err != nil && r.Context().Err() == nil {
		e := apiError(err)
		_ = d.out.Encode(api.DigestLine{Error: &e}) // the status is sent already: the line says it
	}
	return nil
}

func digestQuery(v url.Values) (q api.DigestQuery, err error) {
	q.To = math.MaxInt64
	if err := q.Life.UnmarshalText([]byte(v.Get("life"))); err != nil {
		return q, rhumb.Errorf(rhumb.KindInvalid, "life: %w", err)
	}
	if log := v.Get("log"); log != "" {
		if err := q.Log.UnmarshalText([]byte(log)); err != nil {
			return q, rhumb.Errorf(rhumb.KindInvalid, "log: %w", err)
		}
	}
	number, err := strconv.ParseUint(v.Get("region"), 10, 16)
	if err != nil {
		return q, rhumb.Errorf(rhumb.KindInvalid, "region must be a region number, not %q", v.Get("region"))
	}
	q.Region = rhumb.RegionNumber(number)
	for name, into := range map[string]*rhumb.Offset{"from": &q.From, "to": &q.To} {
		if *into, err = offsetParam(v, name, *into); err != nil {
			return q, err
		}
	}
	for name, into := range map[string]*bool{"records": &q.Records, "seek": &q.Seek} {
		if text := v.Get(name); text != "" {
			if *into, err = strconv.ParseBool(text); err != nil {
				return q, rhumb.Errorf(rhumb.KindInvalid, "%s must be true or false, not %q", name, text)
			}
		}
	}
	return q, nil
}

func offsetParam(v url.Values, name string, absent rhumb.Offset) (rhumb.Offset, error) {
	text := v.Get(name)
	if text == "" {
		return absent, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, rhumb.Errorf(rhumb.KindInvalid, "%s must be an offset, not %q", name, text)
	}
	return rhumb.Offset(n), nil
}

// digester walks one log from its start, or from where the origin's range
// starts, to the end that it had when the request came.
type digester struct {
	s   *Server
	ref rhumb.PartitionRef
	q   api.DigestQuery
	end rhumb.Offset
	out *json.Encoder
	w   http.ResponseWriter
	r   *http.Request

	start rhumb.Offset // of the log, when it was looked at last
	done  api.DigestEnd
	alone *holding // while a batch is in memory that is large, or expands to much at once
}

func (d *digester) run(at rhumb.Offset) error {
	d.start = at
	if d.q.Seek {
		base, found, err := d.s.cfg.Logs.Seek(d.ref, d.q.Region, d.q.Life, d.q.From)
		if err != nil {
			return err
		}
		if found { // else the index knows of none, which the log may know better
			at = max(at, base)
		}
	}
	progress := &recorder{ResponseWriter: d.w}
	for at < d.end {
		if d.r.Context().Err() != nil || d.s.stopping.Err() != nil {
			return rhumb.Errorf(rhumb.KindUnavailable, "the server stops")
		}
		next, err := d.step(at)
		if err != nil {
			return err
		}
		if next == at {
			break
		}
		at = next
		progress.extend(writeTimeout)
	}
	d.done.LogEnd = at
	return d.out.Encode(api.DigestLine{End: &d.done})
}

// step writes the lines of one read, and gives the offset to go on at; the same if
// nothing more is there.
func (d *digester) step(at rhumb.Offset) (rhumb.Offset, error) {
	defer func() {
		if d.alone != nil {
			d.alone.release()
			d.alone = nil
		}
	}()
	batches, err := d.s.cfg.Logs.Read(d.ref, at, ReadRoom{Bytes: readBytes, First: maxConsumeBytes})
	if _, large := errors.AsType[*LargeBatchError](err); large {
		if err := d.beAlone(); err != nil {
			return at, err
		}
		batches, err = d.s.cfg.Logs.Read(d.ref, at, ReadRoom{Bytes: 1}) // that batch and nothing else
	}
	if rhumb.KindOf(err) == rhumb.KindOutOfRange {
		return d.afterTrim(at)
	}
	if err != nil {
		return at, err
	}
	for _, b := range batches {
		next, err := d.batch(b)
		if err != nil {
			return at, err
		}
		at = max(at+1, next)
	}
	return at, nil
}

// beAlone waits until no other call has a large batch in memory. Batches that this one
// reads may be large then until its step ends.
func (d *digester) beAlone() (err error) {
	if d.alone == nil {
		d.alone, err = d.s.holdAlone(d.r)
	}
	return err
}

// afterTrim goes on at the log's new start if retention overtook the walk.
func (d *digester) afterTrim(at rhumb.Offset) (rhumb.Offset, error) {
	st, there := d.s.cfg.Logs.State(d.ref)
	if !there || st.LogStart <= at {
		return at, rhumb.Errorf(rhumb.KindNotFound, "the partition was deleted meanwhile, or offset %d cannot be read", at)
	}
	d.start = st.LogStart
	return st.LogStart, nil
}

// batch writes the lines of one stored batch, if it is asked for, and gives the
// local offset after it.
func (d *digester) batch(b Batch) (next rhumb.Offset, err error) {
	d.done.Batches++
	d.done.Bytes += int64(len(b.Bytes))
	h, err := codec.ParseBatch(b.Bytes)
	if err != nil {
		return 0, fmt.Errorf("local offset %d: %w", b.Base, err)
	}
	next = b.Base + rhumb.Offset(h.LastOffsetDelta) + 1
	if h.Attributes&codec.AttrControl != 0 {
		return next, nil // markers of transactions belong to the region that wrote them
	}
	if b.Region != d.q.Region || b.Life != d.q.Life || b.Last < d.q.From || b.First > d.q.To {
		return next, nil
	}
	crc := codec.Checksum(b.Bytes[crcStart:])
	line := api.DigestBatch{First: b.First, Last: b.Last, Count: h.Count, CRC: fmt.Sprintf("%08x", crc),
		Hash: hex64(xxhash.Sum64(b.Bytes[hashStart:]))}
	if crc != h.CRC {
		line.Broken = fmt.Sprintf("CRC of its bytes is %08x, it states %08x", crc, h.CRC)
	}
	if line.Broken == "" && (d.q.Records || b.Base < d.start) {
		if err := d.look(b, &line); err != nil {
			return 0, err
		}
	}
	if err := d.out.Encode(api.DigestLine{Batch: &line}); err != nil {
		return 0, err
	}
	if !d.q.Records || line.Broken != "" {
		return next, nil
	}
	return next, d.records(b)
}

// look counts the records of a batch that the log's start has dropped, and says in its line
// why its records cannot be read, if they are asked for. It goes before their lines,
// which could be millions: they are made while the records are read again.
func (d *digester) look(b Batch, line *api.DigestBatch) error {
	if codec.LargestBlock(b.Bytes) > maxConsumeBytes {
		if err := d.beAlone(); err != nil {
			return err
		}
	}
	err := d.s.eachRecord(b.Bytes, nobody{}, func(s codec.Stamp) error {
		if b.Base+rhumb.Offset(s.Delta) < d.start {
			line.Dropped++
		}
		return nil
	})
	if err != nil && d.q.Records {
		line.Broken = err.Error()
	}
	return nil
}

// records writes the lines of those of a batch's records that are asked for.
func (d *digester) records(b Batch) error {
	h := &hasher{}
	return d.s.eachRecord(b.Bytes, h, func(s codec.Stamp) error {
		at := b.First + rhumb.Offset(s.Delta)
		if at < d.q.From || at > d.q.To {
			return nil
		}
		return d.out.Encode(api.DigestLine{Record: &api.DigestRecord{Offset: at, Hash: hex64(h.sum.Sum64()),
			Dropped: b.Base+rhumb.Offset(s.Delta) < d.start}})
	})
}

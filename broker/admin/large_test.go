package admin_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const recordsOf = "/admin/v1/topics/public/default/orders/partitions/1/records?from="

// bomb makes a batch of records whose values are one byte so many times, without ever having
// them in memory.
func bomb(t *testing.T, kind int16, fill byte, values ...int) []byte {
	t.Helper()
	var packed bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&packed)
	if kind == codec.CodecZstd {
		z, err := zstd.NewWriter(&packed, zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		w = z
	}
	piece := bytes.Repeat([]byte{fill}, 1<<16)
	for delta, n := range values {
		head := binary.AppendVarint([]byte{0, 0}, int64(delta)) // no attributes, the first timestamp
		head = binary.AppendVarint(append(head, 1), int64(n))   // no key
		record := binary.AppendVarint(nil, int64(len(head)+n+1))
		w.Write(append(record, head...))
		for left := n; left > 0; left -= len(piece) {
			w.Write(piece[:min(left, len(piece))])
		}
		w.Write([]byte{0}) // no headers
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return codectest.WithRecords(codec.BuildBatch(codec.NoSender, make([]codec.PlainRecord, len(values))), kind, packed.Bytes())
}

// storing is a region whose partition orders/1 has these batches.
func storing(t *testing.T, batches ...[]byte) *admintest.Region {
	t.Helper()
	us := sample(t)
	for _, b := range batches {
		if _, err := us.Produce(t.Context(), orders, 1, b); err != nil {
			t.Fatal(err)
		}
	}
	return us
}

// discard is an answer that is only counted.
type discard struct {
	header http.Header
	sent   int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(b []byte) (int, error) {
	d.sent += len(b)
	return len(b), nil
}

// cost tells how many bytes a call allocates in all, and sends.
func cost(h http.Handler, target string) (allocated int64, sent int) {
	r := httptest.NewRequest("GET", target, nil)
	r.Host = "127.0.0.1:8080"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := &discard{header: http.Header{}}
	h.ServeHTTP(w, r)
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc), w.sent
}

// answered is what an answer shows, without all of it being decoded.
type answered struct {
	offsets string
	next    int
	size    int
}

// page asks for records from an offset on.
func page(t *testing.T, h http.Handler, from int) (a answered, refusal string) {
	t.Helper()
	w := do(h, "GET", recordsOf+fmt.Sprint(from), "")
	text := w.Body.String()
	switch w.Code {
	case http.StatusOK:
		var offsets []string
		for _, record := range strings.Split(text, `{"partition":1,"offset":"`)[1:] {
			offset, _, _ := strings.Cut(record, `"`)
			offsets = append(offsets, offset)
		}
		a = answered{fmt.Sprint(offsets), -1, len(text)}
		_, _ = fmt.Sscanf(text[strings.LastIndex(text, `"next":`):], `"next":"%d"`, &a.next) // else it stays -1
	case http.StatusRequestEntityTooLarge:
		refusal = text
	default:
		t.Fatalf("from %d: %d %s", from, w.Code, text)
	}
	return a, refusal
}

// TestI9ARecordThatExpandsToMuchCostsLittle: a batch of some kilobytes may have a record
// of hundreds of megabytes. It is not shown, and the error says how to go on; a digest
// sums it up. Neither takes room for it.
func TestI9ARecordThatExpandsToMuchCostsLittle(t *testing.T) {
	for name, batch := range map[string][]byte{
		"zstd": bomb(t, codec.CodecZstd, 0, 5, 300<<20, 7),
		"gzip": bomb(t, codec.CodecGzip, 'a', 5, 48<<20, 7),
	} {
		us := storing(t, batch)
		h := newServer(t, us.Config()).Handler()
		if got, _ := page(t, h, 0); got.offsets != "[0]" || got.next != 1 {
			t.Errorf("%s: what comes before it: %+v", name, got)
		}
		_, refusal := page(t, h, 1)
		for _, want := range []string{"offset 1: ", "MiB, and the HTTP API shows records of up to 32 MiB", "with a Kafka client", "from=2",
			"'rhumb consume orders --partition 1 --from 2'", `"kind":"too large"`} {
			if !strings.Contains(refusal, want) {
				t.Errorf("%s: %q is missing in %s", name, want, refusal)
			}
		}
		if got, _ := page(t, h, 2); got.offsets != "[2]" || got.next != 3 || got.size > 1000 {
			t.Errorf("%s: what comes behind it: %+v", name, got)
		}
		digest := fmt.Sprintf("/admin/v1/topics/public/default/orders/partitions/1/digest?region=1&records=true&life=%s", us.Log("orders", 1).Life())
		if got := do(h, "GET", digest, "").Body.String(); strings.Count(got, `"record":`) != 3 || strings.Contains(got, `"broken"`) {
			t.Errorf("%s: digest %s", name, got)
		}
		for _, target := range []string{recordsOf + "0", recordsOf + "1", recordsOf + "2", digest} {
			if got, _ := cost(h, target); got > 32<<20 {
				t.Errorf("%s: %d bytes are allocated for %s", name, got, target)
			}
		}
	}
}

// A record of more than an answer's megabytes goes alone in one; what comes before and
// behind it comes once, whatever makes it large.
func TestLargeRecordsGoAlone(t *testing.T) {
	noise := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise) // never fails
	small := codec.PlainRecord{Value: []byte("small")}
	expanding := codec.PlainRecord{Value: bytes.Repeat([]byte("a"), 5<<20)}
	for name, batches := range map[string][][]byte{
		"expands":        {bomb(t, codec.CodecZstd, 'a', 5, 5<<20, 5, 5<<20, 5)},
		"as stored":      {codec.BuildBatch(codec.NoSender, []codec.PlainRecord{small, {Value: noise}, small, {Key: noise}, small})},
		"between others": {codec.BuildBatch(codec.NoSender, []codec.PlainRecord{small}), bomb(t, codec.CodecZstd, 'a', 5<<20), codec.BuildBatch(codec.NoSender, []codec.PlainRecord{small}), codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: noise}}), bomb(t, codec.CodecGzip, 'a', 5)},
		"block of snappy": {codec.BuildBatch(codec.NoSender, []codec.PlainRecord{small}),
			codectest.Packings[2].Batch(codec.BuildBatch(codec.NoSender, []codec.PlainRecord{expanding, small, expanding, small}))},
	} {
		h := newServer(t, storing(t, batches...).Config()).Handler()
		var pages []string
		for from := 0; from < 5; {
			got, refusal := page(t, h, from)
			if refusal != "" || got.next <= from {
				t.Fatalf("%s: from %d %+v %s", name, from, got, refusal)
			}
			pages = append(pages, got.offsets)
			from = got.next
		}
		if got := strings.Join(pages, ""); got != "[0][1][2][3][4]" {
			t.Errorf("%s: pages %s", name, got)
		}
	}
}

// Whatever an answer shows counts: headers too, and what they take beside their bytes.
func TestHeadersCountAsAnswer(t *testing.T) {
	long := codec.PlainRecord{Headers: []codec.PlainHeader{{Key: "h", Value: bytes.Repeat([]byte("a"), 1<<20)}}}
	many := codec.PlainRecord{Headers: make([]codec.PlainHeader, 9000)}
	for name, r := range map[string]codec.PlainRecord{"long": long, "many": many} {
		records := make([]codec.PlainRecord, 12)
		for i := range records {
			records[i] = r
		}
		h := newServer(t, storing(t, codectest.Packings[6].Batch(codec.BuildBatch(codec.NoSender, records))).Config()).Handler()
		if got, _ := page(t, h, 0); got.next < 2 || got.next > 8 || strings.Count(got.offsets, " ") != got.next-1 {
			t.Errorf("%s: one answer has %+v", name, got)
		}
	}
}

// A producer may state the offsets of its records as it likes: nobody reads in a circle.
func TestRecordsOfOneOffsetEnd(t *testing.T) {
	batch := codec.BuildBatch(codec.NoSender, make([]codec.PlainRecord, 3))
	same := []byte{12, 0, 0, 2, 1, 1, 0} // offset 1 of the batch
	h := newServer(t, storing(t, codectest.WithRecords(batch, codec.CodecNone, bytes.Repeat(same, 3))).Config()).Handler()
	if got, _ := page(t, h, 0); got.offsets != "[1]" || got.next != 3 {
		t.Errorf("%+v", got)
	}
	w := do(h, "GET", recordsOf+"0&max=1", "")
	if got := w.Body.String(); !strings.Contains(got, `"next":"3"`) {
		t.Errorf("with max=1: %s", got)
	}
}

// The largest record that is shown takes little more than itself, although each of its
// bytes makes six of the answer.
func TestI9ALargeAnswerIsMadeInPieces(t *testing.T) {
	const size = 31 << 20
	h := newServer(t, storing(t, bomb(t, codec.CodecZstd, 0, size)).Config()).Handler()
	allocated, sent := cost(h, recordsOf+"0")
	if allocated > 3*size && !underRace || sent < 6*size {
		t.Errorf("%d bytes are allocated for a record of %d, %d are sent", allocated, size, sent)
	}
}

// TestI9OneLargeRecordOrBatchAtATime: what is large is in memory once, until its answer is
// with the client. Others wait, and are refused in the end; small calls go on.
func TestI9OneLargeRecordOrBatchAtATime(t *testing.T) {
	noise := make([]byte, 5<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(noise)           // never fails
	var many, zeros []codec.PlainRecord // none of which is large
	for piece := range slices.Chunk(noise, 1<<20) {
		many, zeros = append(many, codec.PlainRecord{Value: piece}), append(zeros, codec.PlainRecord{Value: make([]byte, 1<<20)})
	}
	for name, batch := range map[string][]byte{"large": codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: noise}}),
		"large of many": codec.BuildBatch(codec.NoSender, many), "snappy of many": codectest.Packings[2].Batch(codec.BuildBatch(codec.NoSender, zeros)),
		"expands": bomb(t, codec.CodecZstd, 'a', 5<<20),
		"snappy":  codectest.Packings[2].Batch(codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: bytes.Repeat([]byte("a"), 5<<20)}}))} {
		bubble.Test(t, func(t *testing.T) {
			us := storing(t, batch)
			l := runningOn(t, us)
			get := func(from, target string) net.Conn {
				c := l.dial(from)
				go fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %sadmin\r\n\r\n", target, secret)
				synctest.Wait()
				return c
			}
			answer := func(c net.Conn) (int, string) {
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				return resp.StatusCode, string(body)
			}
			first := get("192.0.2.1:1", recordsOf+"0") // which nobody reads
			waiting := get("192.0.2.1:2", recordsOf+"0")
			digest := get("192.0.2.1:3", fmt.Sprintf("/admin/v1/topics/public/default/orders/partitions/1/digest?region=1&records=true&life=%s", us.Log("orders", 1).Life()))
			if code, _ := answer(get("192.0.2.1:4", strings.Replace(recordsOf, "/1/", "/0/", 1)+"0")); code != http.StatusOK {
				t.Errorf("%s: small records meanwhile: %d", name, code)
			}
			if code, text := answer(waiting); code != http.StatusServiceUnavailable || !strings.Contains(text, "one at a time") {
				t.Errorf("%s: a second one: %d %s", name, code, text)
			}
			// Of a record that expands a digest holds nothing.
			if code, text := answer(digest); code != http.StatusOK || strings.Contains(text, "one at a time") == (name == "expands") {
				t.Errorf("%s: a digest: %d %s", name, code, text)
			}
			first.Close()
			synctest.Wait()
			again := get("192.0.2.1:5", recordsOf+"0")
			if code, text := answer(again); code != http.StatusOK || len(text) < 3<<20 {
				t.Errorf("%s: once it has gone: %d, %d bytes", name, code, len(text))
			}
			for _, c := range []net.Conn{waiting, digest, again} {
				c.Close()
			}
		})
	}
}

// A digest goes on behind a large batch with what others may read, too, and one of whose
// origin a large batch is finds it without reading it.
func TestDigestsReadLargeBatches(t *testing.T) {
	noise := make([]byte, 5<<20)
	small := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: []byte("small")}})
	us := storing(t, bytes.Clone(small), codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: noise}}), small)
	s := newServer(t, us.Config())
	for _, query := range []string{"", "&records=true", "&seek=true&from=1"} {
		target := fmt.Sprintf("/admin/v1/topics/public/default/orders/partitions/1/digest?region=1&life=%s", us.Log("orders", 1).Life())
		for range 2 { // what was taken is given back
			got := do(s.Handler(), "GET", target+query, "").Body.String()
			if strings.Contains(got, `"error"`) || !strings.Contains(got, `"end":{`) || !strings.Contains(got, `"first":"2"`) {
				t.Errorf("%q: %s", query, got)
			}
		}
	}
}

// trimming is a log whose start passes what is read first just then.
type trimming struct {
	*admintest.Region
	trim func()
}

func (l *trimming) Read(ref rhumb.PartitionRef, from rhumb.Offset, room admin.ReadRoom) ([]admin.Batch, error) {
	if l.trim != nil {
		l.trim()
		l.trim = nil
	}
	return l.Region.Read(ref, from, room)
}

// A digest that retention overtakes goes on at the log's new start.
func TestDigestGoesOnBehindATrim(t *testing.T) {
	small := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: []byte("small")}})
	us := storing(t, bytes.Clone(small), bytes.Clone(small), small)
	cfg := us.Config()
	cfg.Logs = &trimming{us, func() { us.Log("orders", 1).Trim(2) }}
	target := fmt.Sprintf("/admin/v1/topics/public/default/orders/partitions/1/digest?region=1&life=%s", us.Log("orders", 1).Life())
	if got := do(newServer(t, cfg).Handler(), "GET", target, "").Body.String(); strings.Count(got, `"batch":`) != 1 || !strings.Contains(got, `"first":"2"`) {
		t.Errorf("%s", got)
	}
}

package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/codec/codectest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// gathered puts a record together from its parts, and holds their order.
type gathered struct {
	begun   codec.Stamp
	size    int64
	headers int64 // -1 before they are told
	lengths []int64
	parts   [][]byte
}

func (g *gathered) Begin(s codec.Stamp, size int64) error {
	*g = gathered{begun: s, size: size, headers: -1}
	return nil
}

func (g *gathered) Headers(n int64) error {
	if len(g.parts) != 2 {
		return errors.New("headers come after key and value")
	}
	g.headers = n
	return nil
}

func (g *gathered) Part(n int64) {
	var part []byte
	if n >= 0 {
		part = []byte{}
	}
	g.lengths, g.parts = append(g.lengths, n), append(g.parts, part)
}

func (g *gathered) Write(b []byte) (int, error) {
	last := &g.parts[len(g.parts)-1]
	*last = append(*last, b...)
	return len(b), nil
}

// record gives what was put together.
func (g *gathered) record() (codec.PlainRecord, error) {
	if g.headers < 0 || int64(len(g.parts)) != 2+2*g.headers {
		return codec.PlainRecord{}, fmt.Errorf("%d headers, %d parts", g.headers, len(g.parts))
	}
	for i, n := range g.lengths {
		if (g.parts[i] == nil) != (n == -1) || n >= 0 && int64(len(g.parts[i])) != n {
			return codec.PlainRecord{}, fmt.Errorf("part %d of length %d has %d", i, n, len(g.parts[i]))
		}
	}
	p := codec.PlainRecord{Timestamp: g.begun.Timestamp, Key: g.parts[0], Value: g.parts[1]}
	for i := 2; i < len(g.parts); i += 2 {
		p.Headers = append(p.Headers, codec.PlainHeader{Key: string(g.parts[i]), Value: g.parts[i+1]})
	}
	return p, nil
}

// sameParts compares a record's parts as they came with what Next gave of it.
func sameParts(g *gathered, s codec.Stamp, rec codec.Record) error {
	got, err := g.record()
	begun := g.begun
	begun.HasKey = s.HasKey
	switch {
	case err != nil:
		return err
	case s != rec.Stamp || begun != s || g.begun.HasKey || g.size != int64(len(rec.Raw)):
		return fmt.Errorf("%+v, begun as %+v of %d bytes, want %+v of %d", s, g.begun, g.size, rec.Stamp, len(rec.Raw))
	case !sameRecords([]codec.PlainRecord{got}, []codec.PlainRecord{plain(rec)}):
		return errors.New("the record differs")
	}
	return nil
}

// NextKey gives the keys that Next gives, CopyNext the bytes, NextParts all parts, however
// a batch is packed.
func TestStreamedRecordsAreTheSame(t *testing.T) {
	x := newExpander()
	records := someRecords()
	records = append(records, codec.PlainRecord{Timestamp: 9, Key: bytes.Repeat([]byte("long key "), 5000), Value: bytes.Repeat([]byte("v"), 70_000)})
	plain := codec.BuildBatch(codec.NoSender, records)
	for _, p := range codectest.Packings {
		batch := p.Batch(plain)
		whole, err := x.Open(batch)
		if err != nil {
			t.Fatal(err)
		}
		keys, _ := x.Open(batch)
		copies, _ := x.Open(batch)
		parts, _ := x.Open(batch)
		var copied bytes.Buffer
		for i := 0; ; i++ {
			rec, err := whole.Next()
			var key bytes.Buffer
			stamp, null, kerr := keys.NextKey(&key)
			cstamp, cerr := copies.CopyNext(&copied)
			var g gathered
			pstamp, perr := parts.NextParts(&g)
			if err != kerr || err != cerr || err != perr {
				t.Fatalf("%s, record %d: %v, %v, %v, %v", p.Name, i, err, kerr, cerr, perr)
			}
			if err == io.EOF {
				break
			}
			if err := sameParts(&g, pstamp, rec); err != nil {
				t.Fatalf("%s, record %d, by its parts: %v", p.Name, i, err)
			}
			if stamp != rec.Stamp || cstamp != rec.Stamp || null != (rec.Value == nil) || !bytes.Equal(key.Bytes(), rec.Key) {
				t.Fatalf("%s, record %d: %+v, %+v, want %+v", p.Name, i, stamp, cstamp, rec.Stamp)
			}
		}
		parts.Close()
		if !bytes.Equal(copied.Bytes(), plain[codec.BatchHeaderSize:]) {
			t.Errorf("%s: the copy differs", p.Name)
		}
		whole.Close()
		keys.Close()
		copies.Close()
	}
}

// allocated tells how many bytes fn allocates.
func allocated(fn func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// passing lets all parts pass.
type passing struct{}

func (passing) Begin(codec.Stamp, int64) error { return nil }
func (passing) Headers(int64) error            { return nil }
func (passing) Part(int64)                     {}
func (passing) Write(b []byte) (int, error)    { return len(b), nil }

// refusing refuses a record where it says.
type refusing struct {
	passing
	begin, headers error
}

func (r refusing) Begin(codec.Stamp, int64) error { return r.begin }
func (r refusing) Headers(int64) error            { return r.headers }

// What does not want a record says so once, before what is large comes.
func TestPartsMayBeRefused(t *testing.T) {
	x := newExpander()
	for _, p := range codectest.Packings {
		batch := p.Batch(codec.BuildBatch(codec.NoSender, someRecords()))
		no := rhumb.Errorf(rhumb.KindTooLarge, "no")
		for i, to := range []codec.Parts{refusing{begin: no}, refusing{headers: no}} {
			r, err := x.Open(batch)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // for good
				if _, err := r.NextParts(to); err != no {
					t.Errorf("%s, %d: %v", p.Name, i, err)
				}
			}
			r.Close()
		}
	}
}

// Of snappy alone a block is in memory as a whole; what states more than a block can hold
// takes nothing, and one above its limit is refused before there is room for it.
func TestBlocksOfSnappyAreBounded(t *testing.T) {
	plain := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{{Value: make([]byte, 500_000)}})
	size := int64(len(plain) - codec.BatchHeaderSize)
	for _, p := range codectest.Packings {
		batch := p.Batch(plain)
		want := map[string]int64{"snappy": size, "xerial": 32 << 10, "xerial in small blocks": 50}[p.Name]
		if got := codec.LargestBlock(batch); got != want {
			t.Errorf("%s: %d bytes at once, want %d", p.Name, got, want)
		}
		_, err := stamps(codec.NewExpander(codec.Limits{Bytes: limit, Block: 40 << 10, Window: 8 << 20}), batch)
		if want > 40<<10 && rhumb.KindOf(err) != rhumb.KindTooLarge || want <= 40<<10 && err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	for _, bad := range [][]byte{{}, {255, 255, 255, 255, 7}, plain[:codec.BatchHeaderSize-1]} {
		if got := codec.LargestBlock(codectest.WithRecords(plain, codec.CodecSnappy, bad)); got != 0 || codec.LargestBlock(bad) != 0 {
			t.Errorf("%x: %d bytes at once", bad, got)
		}
	}
}

// A batch that expands to much goes through keys, parts and thinning in pieces: what is
// allocated does not follow what it expands to.
func TestI9ThinningABombTakesLittle(t *testing.T) {
	const large = 96 << 20
	x := codec.NewExpander(codec.Limits{Bytes: 128 << 20, Window: 8 << 20})
	plain := codec.BuildBatch(codec.NoSender, []codec.PlainRecord{
		{Key: []byte("a"), Value: make([]byte, large)}, {Key: []byte("b"), Value: []byte("x")},
	})
	for _, p := range codectest.Packings {
		if p.Codec == codec.CodecNone || p.Codec == codec.CodecSnappy {
			continue // as large as what they hold, or nearly: snappy's ratio is 22 at most
		}
		t.Run(p.Name, func(t *testing.T) {
			batch := p.Batch(plain)
			thinner := &codec.Thinner{}
			got := allocated(func() {
				r, err := x.Open(batch)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, _, err = r.NextKey(io.Discard)
				}
				if r.Close(); err != io.EOF {
					t.Fatal(err)
				}
				r, err = x.Open(batch)
				for err == nil {
					_, err = r.NextParts(passing{})
				}
				if r.Close(); err != io.EOF {
					t.Fatal(err)
				}
				if _, err := thinner.Thin(x, batch, func(i int) bool { return i == 0 }); err != nil {
					t.Fatal(err)
				}
			})
			t.Logf("%d bytes, %d allocated", len(batch), got)
			if got > 40<<20 {
				t.Errorf("%d bytes are allocated for a batch of %d", got, len(batch))
			}
		})
	}
}

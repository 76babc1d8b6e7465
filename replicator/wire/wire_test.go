package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/iotest"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// budget counts what the reader holds and refuses to go over a limit.
type budget struct{ used, limit int }

var errBudget = errors.New("no budget")

func (b *budget) Reserve(n int) error {
	if b.used+n > b.limit {
		return errBudget
	}
	b.used += n
	return nil
}

func (b *budget) Release(n int) { b.used -= n }

// TestStreamOfFrames: any frames, compressed or not, in any pieces, come out as
// they went in, and the budget holds exactly the batches.
func TestStreamOfFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		w := NewWriter(&out, rapid.Bool().Draw(t, "compress"))
		var sent []Frame
		memory := 0
		for range rapid.IntRange(0, 12).Draw(t, "frames") {
			f := rapid.OneOf(rapid.Custom(drawExample), rapid.Custom(drawData)).Draw(t, "frame")
			if d, ok := f.(*Data); ok {
				memory += d.Size()
			}
			sent = append(sent, f)
			if err := w.Write(f); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "flush") && w.Flush() != nil {
				t.Fatal("flush failed")
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		b := &budget{limit: 1 << 30}
		r := NewReader(iotest.HalfReader(&out), b)
		for i, want := range sent {
			got, err := r.Next()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("frame %d: %+v, %v; want %+v", i, got, err, want)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
		if b.used != memory {
			t.Fatalf("budget holds %d bytes, the batches have %d", b.used, memory)
		}
	})
}

func drawExample(t *rapid.T) Frame {
	return examples[rapid.IntRange(0, len(examples)-1).Draw(t, "example")].frame
}

func drawData(t *rapid.T) Frame {
	n := rapid.SampledFrom([]int{1, 100, 200, directBatch - codec.BatchHeaderSize, writeBuffer, 200_000}).Draw(t, "size")
	body := bytes.Repeat([]byte{byte(n), 1, 2, byte(n >> 8)}, n/4+1)[:n]
	if rapid.Bool().Draw(t, "random") {
		x := rapid.Uint64().Draw(t, "seed")
		for i := range body {
			x = x*6364136223846793005 + 1442695040888963407
			body[i] = byte(x >> 56)
		}
	}
	count := rapid.Int32Range(1, 50).Draw(t, "count")
	return testDataFrame(rhumb.Offset(rapid.Int64Range(0, 1<<50).Draw(t, "first")), count, testBatch(0, count, body))
}

// TestI9CutStream: a stream that ends anywhere inside a frame is an error and
// leaves no budget taken.
func TestI9CutStream(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, true)
	for _, e := range append(examples[:len(examples):len(examples)], struct {
		name  string
		frame Frame
	}{"compressed", compressible()}) {
		out.Reset()
		if w.Write(e.frame) != nil || w.Flush() != nil {
			t.Fatal("write failed")
		}
		for cut := 1; cut < out.Len(); cut++ {
			b := &budget{limit: 1 << 30}
			_, err := NewReader(bytes.NewReader(out.Bytes()[:cut]), b).Next()
			if !errors.Is(err, io.ErrUnexpectedEOF) || b.used != 0 {
				t.Fatalf("%s cut at %d: %v, budget %d", e.name, cut, err, b.used)
			}
		}
	}
}

// TestI9Hostile: lengths are bounded before anything is allocated.
func TestI9Hostile(t *testing.T) {
	le := binary.LittleEndian
	change := func(f Frame, fn func(b []byte)) []byte {
		b := Append(nil, f)
		fn(b)
		return b
	}
	data := testDataFrame(1, 1, testBatch(0, 1, []byte("x")))
	for _, c := range []struct {
		name string
		b    []byte
		kind rhumb.Kind
	}{
		{"http", []byte("GET / HTTP/1.1\r\n"), rhumb.KindTooLarge},
		{"huge control frame", []byte{0xff, 0xff, 0xff, 0xff, byte(TypePing), 0, 24, 0}, rhumb.KindTooLarge},
		{"huge data frame", []byte{0xff, 0xff, 0xff, 0xff, byte(TypeData), 0, 32, 0}, rhumb.KindTooLarge},
		{"header past the frame", []byte{4, 0, 0, 0, byte(TypePing), 0, 99, 0}, rhumb.KindCorrupt},
		{"header too short", []byte{4, 0, 0, 0, byte(TypePing), 0, 7, 0}, rhumb.KindCorrupt},
		{"unknown required type", []byte{4, 0, 0, 0, 0x30, 0, 8, 0}, rhumb.KindUnsupported},
		{"required flag", change(&Ping{}, func(b []byte) { b[5] = 0x10 }), rhumb.KindUnsupported},
		{"other magic", change(&Hello{}, func(b []byte) { b[8]++ }), rhumb.KindCorrupt},
		{"batch longer than the frame", change(data, func(b []byte) { le.PutUint32(b[32+76:], 1<<30) }), rhumb.KindTooLarge},
		{"batch does not fit", change(data, func(b []byte) { le.PutUint32(b[32+76:], 1<<20) }), rhumb.KindCorrupt},
		{"compressed bomb", change(data, func(b []byte) { b[5] = flagCompressed; le.PutUint32(b[32+76:], 64<<20) }), rhumb.KindTooLarge},
		{"envelope damaged", change(data, func(b []byte) { b[32+33]++ }), rhumb.KindCorrupt},
		{"skip without a gap's type", change(&Skip{Skip: dedup.Skip{Reason: rhumb.ReasonLost}}, func(b []byte) { b[4] = byte(TypeSkip) }), rhumb.KindCorrupt},
		{"negative offset", change(&Confirm{Watermark: -2}, func([]byte) {}), rhumb.KindCorrupt},
		{"topic without partitions", Append(nil, &Topic{Topic: testTopic}), rhumb.KindCorrupt},
		{"illegal topic", Append(nil, &Topic{Topic: rhumb.Topic{Name: "../x"}, Partitions: 1}), rhumb.KindCorrupt},
	} {
		_, err := NewReader(bytes.NewReader(c.b), &budget{limit: 1 << 12}).Next()
		if rhumb.KindOf(err) != c.kind {
			t.Errorf("%s: %v (%s), want %s", c.name, err, rhumb.KindOf(err), c.kind)
		}
	}
	if _, err := NewReader(bytes.NewReader(Append(nil, data)), &budget{limit: 10}).Next(); !errors.Is(err, errBudget) {
		t.Errorf("over budget: %v", err)
	}
}

// TestLaterVersions: longer headers, more behind the variable part and optional
// frames are passed over.
func TestLaterVersions(t *testing.T) {
	le := binary.LittleEndian
	for _, e := range examples {
		b := Append(nil, e.frame)
		h := int(le.Uint16(b[6:]))
		longer := append(bytes.Clone(b[:h]), "new fixed"...)
		longer = append(longer, b[h:]...)
		switch f := e.frame.(type) {
		case *Data: // its variable part never grows
		case *Open: // a later version writes how many points follow, even if none do
			longer = append(longer, []string{"\x00\x00new variable", "new variable"}[min(1, len(f.Probes))]...)
		case *State:
			longer = append(longer, []string{"\x00\x00new variable", "new variable"}[min(1, len(f.Chains))]...)
		case *Hello:
			longer = append(longer, []string{"\x00\x00new variable", "new variable"}[min(1, len(f.Software))]...)
		case *Skip: // a later version writes by whom, even if by nobody
			longer = append(longer, []string{"\x00\x00new variable", "new variable"}[min(1, len(f.Skip.By))]...)
		default:
			longer = append(longer, "new variable"...)
		}
		le.PutUint16(longer[6:], uint16(h+len("new fixed")))
		le.PutUint32(longer, uint32(len(longer)-4))
		optional := []byte{9, 0, 0, 0, 0xff, 0x0f, 8, 0, 1, 2, 3, 4, 5}
		got, err := NewReader(bytes.NewReader(append(optional, longer...)), nil).Next()
		if err != nil || !reflect.DeepEqual(got, e.frame) {
			t.Errorf("%s: %+v, %v", e.name, got, err)
		}
	}
}

// TestFrameTooLargeToWrite: a frame that no peer would read is not sent, and
// what comes after it is.
func TestFrameTooLargeToWrite(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, false)
	big := &Topic{Topic: testTopic, Partitions: 1, Configs: map[string]string{}}
	for i := range 10 {
		big.Configs[string(rune('a'+i))] = string(make([]byte, 60_000))
	}
	if err := w.Write(big); rhumb.KindOf(err) != rhumb.KindTooLarge {
		t.Errorf("error %v", err)
	}
	if w.Write(&Ping{Number: 1}) != nil || w.Flush() != nil {
		t.Error("the writer does not go on")
	}
	if f, err := NewReader(&out, nil).Next(); err != nil || f.Type() != TypePing {
		t.Errorf("read %v, %v", f, err)
	}
}

// TestWriterKeepsItsError: nothing is written behind bytes that may be missing.
func TestWriterKeepsItsError(t *testing.T) {
	broken := errors.New("broken")
	w := NewWriter(failingWriter{broken}, true)
	first := w.Write(testDataFrame(1, 1, testBatch(0, 1, make([]byte, 1<<20))))
	if !errors.Is(w.Flush(), broken) || !errors.Is(w.Write(&Ping{}), broken) || !errors.Is(w.Flush(), broken) {
		t.Errorf("errors are lost (first %v)", first)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCodes: every code has words, and every kind of error becomes a code.
func TestCodes(t *testing.T) {
	for c := CodeNone; c <= CodeShutdown; c++ {
		if c.String() == "" {
			t.Errorf("code %d has no words", c)
		}
	}
	for _, c := range []struct {
		kind rhumb.Kind
		code Code
	}{
		{rhumb.KindNotLeader, CodeUnavailable}, {rhumb.KindInternal, CodeUnavailable}, {rhumb.KindNoSpace, CodeHold},
		{rhumb.KindFenced, CodeDeleted}, {rhumb.KindForbidden, CodeForbidden}, {rhumb.KindNotFound, CodeNotFound},
		{rhumb.KindCorrupt, CodeInvalid}, {rhumb.KindDiverged, CodeDiverged}, {rhumb.KindMissing, CodeMissing},
	} {
		if got := CodeOf(rhumb.Errorf(c.kind, "x")); got != c.code {
			t.Errorf("%s becomes %s, want %s", c.kind, got, c.code)
		}
	}
	if !CodeHold.Retriable() || CodeDeleted.Retriable() || !Code(99).Retriable() {
		t.Error("wrong codes are retriable")
	}
}

package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// FuzzReader: whatever comes, the reader gives frames or an error, keeps no more
// budget than its frames hold, and what it read can be written and read again.
func FuzzReader(f *testing.F) {
	var all, packed []byte
	for _, e := range examples {
		b := Append(nil, e.frame)
		all = append(all, b...)
		f.Add(b)
	}
	f.Add(all)
	var out bytes.Buffer
	w := NewWriter(&out, true)
	if w.Write(compressible()) != nil || w.Flush() != nil {
		f.Fatal("write failed")
	}
	packed = append(packed, out.Bytes()...)
	f.Add(packed)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := &budget{limit: 4 << 20}
		r := NewReader(bytes.NewReader(in), b)
		for {
			frame, err := r.Next()
			if err != nil {
				break
			}
			if d, ok := frame.(*Data); ok {
				b.Release(d.Size())
			}
			again, err := NewReader(bytes.NewReader(Append(nil, frame)), nil).Next()
			if err != nil || !reflect.DeepEqual(again, frame) {
				t.Fatalf("%+v becomes %+v, %v", frame, again, err)
			}
		}
		if b.used != 0 {
			t.Fatalf("%d bytes of budget are lost", b.used)
		}
	})
}

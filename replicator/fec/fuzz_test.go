package fec

import (
	"bytes"
	"testing"
	"time"
)

// FuzzDecoder feeds what any peer could send, sealed and not: a decoder never panics,
// keeps no more than its window, and delivers no longer packet than it got.
func FuzzDecoder(f *testing.F) {
	e, _ := pair(f, Code{3, 2})
	var seed []byte
	add := func(p []byte) { seed = append(append(seed, 1, byte(len(p))), p...) }
	for range 6 {
		add(e.add(time.Unix(0, 0), []byte("a packet")))
	}
	e.flush(time.Unix(0, 0), add)
	f.Add(seed)
	f.Add([]byte{0, 3, 4, 1, 2, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		_, d := pair(t, Code{})
		k, _ := newKey(bytes.Repeat([]byte{7}, secretSize))
		for len(in) > 2 {
			seal, n := in[0]&1 == 0, min(int(in[1]), len(in)-2)
			p := bytes.Clone(in[2 : 2+n])
			in = in[2+n:]
			if seal && len(p) >= headerSize {
				var h header
				h.get(p)
				p = k.seal(p, fullNumber(h.group, d.highest))
			}
			if !isPacket(p) {
				continue
			}
			if _, ok := sessionOf(p); !ok {
				continue
			}
			if _, err := d.key.openMessage(p); err == nil {
				continue
			}
			d.receive(p, func(got []byte) {
				if len(got) > maxPacket {
					t.Fatalf("delivered %d bytes", len(got))
				}
			})
			if used := d.budget.used.Load(); used > window*(MaxData+MaxParity)*maxShard {
				t.Fatalf("%d bytes kept", used)
			}
		}
	})
}

func TestMessages(t *testing.T) {
	k, _ := newKey(bytes.Repeat([]byte{7}, secretSize))
	m := message{number: 1 << 40, Counts: Counts{Expected: 3, Received: 2, Recovered: 1}}
	for _, size := range []int{0, maxDatagram} {
		p := k.appendMessage(nil, typeReport, 9, &m, size)
		if len(p) != max(size, messageSize+tagSize) {
			t.Errorf("%d bytes, want %d", len(p), size)
		}
		if id, ok := sessionOf(p); !ok || id != 9 || !isPacket(p) {
			t.Error("it is not known again")
		}
		if got, err := k.openMessage(p); err != nil || got != m {
			t.Errorf("%+v, %v; want %+v", got, err, m)
		}
		for i := range p {
			if p[i]++; i != len(p)-1 && i%97 != 0 {
				p[i]--
				continue
			}
			if _, err := k.openMessage(p); err == nil {
				t.Errorf("byte %d may be changed", i)
			}
			p[i]--
		}
	}
}

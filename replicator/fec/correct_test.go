package fec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// pair is both ends of one direction of a session.
func pair(t interface{ Fatal(...any) }, code Code) (*encoder, *decoder) {
	secret := bytes.Repeat([]byte{7}, secretSize)
	mine, err := newKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	theirs, _ := newKey(secret)
	return &encoder{key: mine, session: 0x123456, code: code}, &decoder{key: theirs, budget: &Budget{}}
}

// receive gives a datagram to a decoder, as a socket does.
func (d *decoder) receive(datagram []byte, deliver func([]byte)) {
	datagram = bytes.Clone(datagram)
	switch datagram[0] {
	case typeData:
		packet, g, ok := d.data(datagram)
		if ok {
			deliver(packet)
		}
		if g != nil {
			d.recover(g, deliver)
		}
	case typeParity:
		if g, ok := d.parity(datagram); ok {
			d.recover(g, deliver)
		}
	}
}

// flush takes all parity out of an encoder.
func (e *encoder) flush(now time.Time, out func([]byte)) {
	for {
		p, again := e.next(now)
		switch {
		case p != nil:
			out(p)
		case again.IsZero():
			return
		default:
			now = again
		}
	}
}

func packetOf(luck *rand.Rand, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(luck.Uint32())
	}
	return p
}

// Every pattern of up to as many lost packets as a group has parity comes back whole.
func TestEveryLossPatternComesBack(t *testing.T) {
	const data, parity = 6, 3
	luck := rand.New(rand.NewPCG(1, 2))
	sizes := []int{1, 1452, 40, 700, 1452, 3}
	for pattern := range 1 << (data + parity) {
		e, d := pair(t, Code{data, parity})
		var sent [][]byte
		var wire [][]byte
		now := time.Unix(0, 0)
		for _, n := range sizes {
			p := packetOf(luck, n)
			sent = append(sent, p)
			wire = append(wire, bytes.Clone(e.add(now, p)))
		}
		e.flush(now, func(p []byte) { wire = append(wire, bytes.Clone(p)) })
		if len(wire) != data+parity {
			t.Fatalf("%d packets for a group of %d+%d", len(wire), data, parity)
		}
		var got [][]byte
		lost, lostData := 0, 0
		for i, p := range wire {
			if pattern&(1<<i) != 0 {
				lost++
				if i < data {
					lostData++
				}
				continue
			}
			d.receive(p, func(p []byte) { got = append(got, bytes.Clone(p)) })
		}
		want := data
		if lost > parity {
			want = data - lostData
		}
		if len(got) != want {
			t.Fatalf("pattern %b: %d packets delivered, want %d", pattern, len(got), want)
		}
		for _, p := range got {
			if !contains(sent, p) {
				t.Fatalf("pattern %b: a packet was delivered that nobody sent", pattern)
			}
		}
		if used := d.budget.used.Load(); lost <= parity && used != 0 {
			t.Fatalf("pattern %b: %d bytes are kept of a group that is done", pattern, used)
		}
	}
}

func contains(all [][]byte, p []byte) bool {
	for _, q := range all {
		if bytes.Equal(p, q) {
			return true
		}
	}
	return false
}

// Whatever a network loses, doubles and shuffles, with groups that end early and
// codes that change: nothing wrong and nothing twice is delivered; what came, was
// delivered; and a group that lost no more than it had parity is whole.
func TestNothingWrongNothingTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, d := pair(t, Code{})
		luck := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		loss := rapid.SampledFrom([]float64{0, .01, .1, .3, .8}).Draw(t, "loss")
		double := rapid.SampledFrom([]float64{0, .1, .5}).Draw(t, "double")
		reorder := rapid.SampledFrom([]int{0, 2, 10, 100}).Draw(t, "reorder")
		now := time.Unix(0, 0)
		type flight struct {
			at   int
			data []byte
		}
		var wire []flight
		send := func(p []byte) {
			for n := 1; n > 0; n-- {
				if luck.Float64() < loss {
					continue
				}
				wire = append(wire, flight{len(wire) + luck.IntN(reorder+1), bytes.Clone(p)})
				if luck.Float64() < double {
					n++
				}
			}
		}
		sent := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "phases") {
			e.code = Code{rapid.IntRange(1, MaxData).Draw(t, "data"), rapid.IntRange(1, MaxParity).Draw(t, "parity")}
			for range rapid.IntRange(1, 150).Draw(t, "packets") {
				p := packetOf(luck, 8+luck.IntN(60))
				binary.BigEndian.PutUint64(p, uint64(len(sent)))
				sent[string(p)] = true
				send(e.add(now, p))
				now = now.Add(time.Duration(luck.IntN(3)) * time.Millisecond)
				for q, _ := e.next(now); q != nil; q, _ = e.next(now) {
					send(q)
				}
			}
			if luck.IntN(3) == 0 {
				e.flush(now, send)
			}
		}
		e.flush(now, send)
		stable(wire, func(a, b flight) bool { return a.at < b.at })
		got := map[string]bool{}
		for _, f := range wire {
			d.receive(f.data, func(p []byte) {
				if !sent[string(p)] {
					t.Fatalf("delivered %x, which nobody sent", p)
				}
				if got[string(p)] {
					t.Fatalf("delivered %x twice", p)
				}
				got[string(p)] = true
			})
		}
		for _, f := range wire {
			if p := f.data[headerSize : len(f.data)-tagSize]; f.data[0] == typeData && reorder < 100 && !got[string(p[lengthSize:])] {
				t.Fatalf("%x came and was not delivered", p)
			}
		}
		if loss == 0 && len(got) != len(sent) {
			t.Fatalf("%d of %d delivered, nothing was lost", len(got), len(sent))
		}
		d.close()
		if used := d.budget.used.Load(); used != 0 {
			t.Fatalf("%d bytes are kept after the end", used)
		}
	})
}

func stable[T any](s []T, less func(a, b T) bool) {
	for i := range s {
		for j := i; j > 0 && less(s[j], s[j-1]); j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
}

// A line that loses single packets loses next to none behind the code for its loss.
func TestCodeForLeavesHardlyAny(t *testing.T) {
	luck := rand.New(rand.NewPCG(3, 4))
	for _, loss := range []float64{.0001, .001, .01, .03, .1} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			code := CodeFor(loss)
			e, d := pair(t, code)
			now, n, got := time.Unix(0, 0), 30000, 0
			p := packetOf(luck, 30)
			receive := func(p []byte) {
				if luck.Float64() >= loss {
					d.receive(p, func([]byte) { got++ })
				}
			}
			for range n {
				receive(e.add(now, p))
				for q, _ := e.next(now); q != nil; q, _ = e.next(now) {
					receive(q)
				}
			}
			e.flush(now, receive)
			if left := n - got; left > 30 {
				t.Errorf("%v leaves %d of %d lost at a loss of %v", code, left, n, loss)
			}
			if c := d.counts; loss >= .001 && (float64(c.Lost()) < .7*loss*float64(c.Expected) || float64(c.Lost()) > 1.3*loss*float64(c.Expected)+3) {
				t.Errorf("counts %+v, the loss is %v", c, loss)
			}
			if loss < .001 && code.Overhead() > .07 || code.Overhead() > 1 {
				t.Errorf("%v for a loss of %v", code, loss)
			}
		})
	}
}

// Parity comes between later data packets, and by itself when none follow.
func TestParityIsNoBurst(t *testing.T) {
	e, _ := pair(t, Code{10, 3})
	now := time.Unix(0, 0)
	for range 10 {
		e.add(now, []byte{1})
		now = now.Add(100 * time.Microsecond)
	}
	first, _ := e.next(now)
	second, again := e.next(now)
	if first == nil || second != nil || again.Sub(now) != parityGap {
		t.Fatalf("after the group: %v, then %v again after %s", first != nil, second != nil, again.Sub(now))
	}
	e.add(now, []byte{1})
	if p, _ := e.next(now); p == nil {
		t.Fatal("nothing follows the next data packet")
	}
	if p, _ := e.next(now); p != nil {
		t.Fatal("two follow one data packet")
	}
	now = now.Add(parityGap)
	if p, _ := e.next(now); p == nil {
		t.Fatal("none comes when no data does")
	}
	if p, again := e.next(now); p != nil || !again.Equal(e.began.Add(groupTime)) {
		t.Fatal("the group that is open ends at another time")
	}
	if p, _ := e.next(now.Add(groupTime)); p == nil {
		t.Fatal("a group that ended early has no parity")
	}
	if e.stats.Data != 11 || e.stats.Parity != 4 {
		t.Errorf("stats %+v", e.stats)
	}
}

// What a decoder keeps is bounded, whatever a peer sends, and nothing that came is
// held back for that.
func TestDecoderMemoryIsBounded(t *testing.T) {
	e, d := pair(t, Code{MaxData, MaxParity})
	now := time.Unix(0, 0)
	p := make([]byte, maxPacket)
	for i := range 3 * window * MaxData {
		w := e.add(now, p)
		if i%2 == 0 {
			d.receive(w, func([]byte) {})
		}
		for q, _ := e.next(now); q != nil; q, _ = e.next(now) {
		}
		if used := d.budget.used.Load(); used > window*(MaxData+MaxParity)*maxShard {
			t.Fatalf("%d bytes kept", used)
		}
	}
	d.budget.used.Store(MaxKept)
	delivered := 0
	for range 100 {
		d.receive(e.add(now, p), func([]byte) { delivered++ })
	}
	if delivered != 100 {
		t.Errorf("%d of 100 delivered with the budget used up", delivered)
	}
}

// A group number is found again after the 24 bits went round, also by late packets.
func TestGroupNumbersGoRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Uint64Range(0, 1<<40).Draw(t, "near")
		n := rapid.Uint64Range(near-min(near, 1<<22), near+1<<22).Draw(t, "n")
		if got := fullNumber(uint32(n&0xffffff), near); got != n {
			t.Fatalf("%d near %d became %d", n, near, got)
		}
	})
}

package kafka

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/offheap"
)

// TestRoomsAreBounded: what waits to be used again never takes more than its share, and
// what nobody uses goes back to the system.
func TestRoomsAreBounded(t *testing.T) {
	if mapRoom(1) == nil {
		t.Skip("this system gives no pages: bodies of requests are garbage like any other")
	}
	bubble.Test(t, func(t *testing.T) {
		before := offheap.Held()
		held := func() int64 { return offheap.Held() - before }
		const size = 5 << 20
		r := newRooms(80 << 20) // 20 MiB may wait: four
		var out [][]byte
		for range 6 {
			out = append(out, r.get(size))
		}
		if held() != 6*size {
			t.Fatalf("%d held, want six rooms", held())
		}
		for _, room := range out {
			room[0], room[size-1] = 1, 1 // it is there
			r.put(room)
		}
		if held() != 4*size {
			t.Errorf("%d held after six came back, want four rooms", held())
		}
		if got := r.get(size); &got[0] != &out[5][0] {
			t.Error("not the room that was used last")
		} else {
			<-time.After(roomIdle / 2)
			r.put(got)
		}
		if got := r.get(size * 2); len(got) != size*2 {
			t.Errorf("%d bytes for %d", len(got), size*2)
		} else {
			r.put(got) // two of the older ones have to go
		}
		if held() != 4*size {
			t.Errorf("%d held, want 20 MiB", held())
		}
		small := r.get(size * 3 / 4)
		if len(small) >= size {
			t.Error("a room was given of which a third would lie behind the request")
		}
		r.put(small)
		r.put(r.get(64 << 20)) // larger than all that may wait
		<-time.After(3 * roomIdle)
		synctest.Wait()
		if held() != 0 {
			t.Errorf("%d held after a while, want nothing", held())
		}
		late := r.get(size)
		r.put(r.get(size))
		r.close()
		r.put(late)
		if held() != 0 {
			t.Errorf("%d held after the end, want nothing", held())
		}
	})
}

// TestRoomsAreOneUsersEach: of many at once none gets a room that another one has.
func TestRoomsAreOneUsersEach(t *testing.T) {
	if mapRoom(1) == nil {
		t.Skip("this system gives no pages: bodies of requests are garbage like any other")
	}
	before := offheap.Held()
	r := newRooms(64 << 20)
	var all sync.WaitGroup
	for user := range byte(8) {
		all.Go(func() {
			for i := range 300 {
				room := r.get(int64(4<<20 + i%3<<20))
				room[0], room[4<<20-1] = user, user
				runtime.Gosched()
				if room[0] != user || room[4<<20-1] != user {
					t.Errorf("room of %d has what %d and %d wrote", user, room[0], room[4<<20-1])
				}
				r.put(room)
			}
		})
	}
	all.Wait()
	r.close()
	if held := offheap.Held() - before; held != 0 {
		t.Errorf("%d held after the end", held)
	}
}

// BenchmarkRooms is what a room for a large request costs, written to once.
func BenchmarkRooms(b *testing.B) {
	for _, c := range []struct {
		name   string
		budget int64
	}{{"kept", 256 << 20}, {"fresh", 0}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRooms(c.budget)
			defer r.close()
			b.SetBytes(6 << 20)
			for b.Loop() {
				room := r.get(6 << 20)
				for i := 0; i < len(room); i += 4096 {
					room[i] = 1
				}
				r.put(room)
			}
		})
	}
}

package kafka

import "testing"

// Each class has one size, which is at most a quarter above what it is for.
func TestBufferSizes(t *testing.T) {
	sizes := map[int]int64{}
	for n := int64(1); n <= maxPooled; n += 1 + n/1000 {
		class, size := sizeClass(n)
		if size < n || n > minPooled && size > n+n/4 || class >= len(pooled) {
			t.Fatalf("%d bytes: class %d of %d", n, class, size)
		}
		if was, ok := sizes[class]; ok && was != size {
			t.Fatalf("%d bytes: class %d has sizes %d and %d", n, class, was, size)
		}
		sizes[class] = size
	}
	if class, size := sizeClass(maxPooled); class != len(pooled)-1 || size != maxPooled || len(sizes) != len(pooled) {
		t.Errorf("the largest is class %d of %d bytes, %d of %d classes", class, size, len(sizes), len(pooled))
	}
	if b := newBuffer(maxPooled+1, newRooms(0)); b.class != -1 || len(b.bytes) != maxPooled+1 {
		t.Errorf("class %d, %d bytes", b.class, len(b.bytes))
	}
}

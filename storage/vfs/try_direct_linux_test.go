package vfs

import "testing"

// TestJudgeAlign: what the kernel says of a file whose data pass through the cache in any
// case, or of blocks that are larger than those of the log, is a no.
func TestJudgeAlign(t *testing.T) {
	for _, c := range []struct {
		memory, offset uint32
		yes            bool
	}{{4, 512, true}, {512, 4096, true}, {0, 0, false}, {512, 0, false}, {512, 16384, false}, {8192, 512, false}} {
		if err := judgeAlign(c.memory, c.offset); (err == nil) != c.yes {
			t.Errorf("memory %d, offset %d: %v", c.memory, c.offset, err)
		}
	}
}

package storage

import (
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// TestLogWritesAreChosenAtStart: a trial decides where one is asked for; what was written one
// way is read by a run that goes the other way.
func TestLogWritesAreChosenAtStart(t *testing.T) {
	no := fmt.Errorf("%w: a test says so", vfs.ErrNoDirect)
	disk := vfs.NewMem(vfs.MemConfig{})
	for i, c := range []struct {
		direct, probe bool
		answer        error
		want          bool
	}{
		{false, false, nil, false}, {true, false, no, true}, {true, true, nil, true}, {true, true, no, false}, {true, true, nil, true},
	} {
		disk.SetNoDirect(c.answer)
		cfg := testConfig(disk)
		cfg.Direct, cfg.ProbeDirect = c.direct, c.probe
		told := 0
		cfg.Events.LogWrites = func(direct bool, why error) {
			if told++; direct != c.want || (why != nil) != (c.probe && !c.want) {
				t.Errorf("run %d: told %v, %v", i, direct, why)
			}
		}
		s, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s.Direct() != c.want || (s.blocks != nil) != c.want || told != 1 {
			t.Errorf("run %d: direct %v, with blocks %v, told %d times", i, s.Direct(), s.blocks != nil, told)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package shard

import (
	"testing"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestSkipsAndGapsSayByWhom: who ordered a skip is in the entry and in the gap's row,
// and those of versions that did not say are read as before.
func TestSkipsAndGapsSayByWhom(t *testing.T) {
	for _, by := range []string{"", "ann"} {
		c := &skipCommand{partition: 3, region: 2, life: rhumb.Life{1}, skip: dedup.Skip{From: 4, To: 9, Chain: 77, Reason: rhumb.ReasonSkipped, By: by}}
		got, err := decodeSkip(c.append(nil))
		if err != nil || *got != *c {
			t.Errorf("skip %+v, %v", got, err)
		}
		g := Gap{Region: 2, Life: rhumb.Life{1}, From: 4, To: 9, Reason: rhumb.ReasonSkipped, At: 123, By: by}
		if again, err := decodeGap(encodeGap(g)); err != nil || again != g {
			t.Errorf("gap %+v, %v", again, err)
		}
	}
}

package sim

import (
	"slices"
	"testing"
)

func TestBatchesSurvive(t *testing.T) {
	for _, want := range [][]string{{"a"}, {"", "b", string(make([]byte, 300))}} {
		raw, h := encodeBatch(7, 3, want)
		got, err := decodeValues(raw)
		if err != nil || !slices.Equal(got, want) || h.ProducerID != 7 || h.BaseSequence != 3 {
			t.Errorf("%q became %q, %+v, %v", want, got, h, err)
		}
	}
}

package verify

import (
	"context"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// damaged is a region with a file that cannot be read: from the start of a digest on, or
// from within it.
type damaged struct {
	Source
	within bool
}

func (d damaged) Digest(ctx context.Context, q api.DigestQuery) (Stream, error) {
	if !d.within {
		return nil, errDamaged
	}
	s, err := d.Source.Digest(ctx, q)
	return damagedStream{s}, err
}

type damagedStream struct{ Stream }

func (damagedStream) Next() (api.DigestLine, error) { return api.DigestLine{}, errDamaged }

var errDamaged = rhumb.Errorf(rhumb.KindCorrupt, "storage: file 8.log: CRC does not match")

// What cannot be read is told with the region that cannot read it, and keeps nothing else
// from being compared.
func TestVerifyNamesTheRegionThatIsDamaged(t *testing.T) {
	for _, within := range []bool{false, true} {
		m := filled(t)
		r, err := Run(t.Context(), Options{A: m.api[m.us], B: damaged{m.api[m.eu], within}})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r, Unknown, "region eu: ", "CRC does not match")
	}
}

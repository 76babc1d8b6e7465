package replicator

import (
	"math/rand/v2"
	"time"
)

// backoff gives growing pauses with jitter.
type backoff struct {
	least, most time.Duration
	tries       int
}

// next gives the pause before the next try: least, doubled with each try up to
// most, of which a random quarter is taken off so that many do not retry at once.
func (b *backoff) next() time.Duration {
	d := b.most
	if b.tries < 16 {
		d = min(d, b.least<<b.tries)
	}
	b.tries++
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// reset starts over after a success.
func (b *backoff) reset() { b.tries = 0 }

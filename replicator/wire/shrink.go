package wire

// Shrink remembers whether the batches of one partition shrink, so that those that do
// not are not compressed in vain: after some that saved too little none is tried for a
// while, longer each time. The zero value tries the next one. It is for one goroutine
// at a time.
type Shrink struct {
	vain  int // tries in a row that saved too little
	skip  int // batches until the next try
	pause int // what skip was set to last
}

const (
	// shrinkWorth is the part of a batch, one in so many, that compression must save to
	// be worth it: both sides spend time on it.
	shrinkWorth = 16
	// vainTries is how many tries in a row decide that a partition does not shrink.
	vainTries = 4
	// leastPause and mostPause bound the batches until the next try.
	leastPause = 16
	mostPause  = 1024
)

// try reports whether the next batch is worth trying.
func (s *Shrink) try() bool {
	if s == nil || s.skip == 0 {
		return true
	}
	s.skip--
	return false
}

// saved notes how a try ended, and reports whether it was worth it.
func (s *Shrink) saved(before, after int) bool {
	worth := after <= before-before/shrinkWorth
	switch {
	case s == nil:
	case worth:
		*s = Shrink{}
	default:
		if s.vain++; s.vain >= vainTries {
			s.pause = min(max(leastPause, 2*s.pause), mostPause)
			s.skip = s.pause
		}
	}
	return worth
}

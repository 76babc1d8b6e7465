package shard

// Writes to groups are handed over without waiting: they take place in the order
// of the calls, and done is called once, as for Append, when the write is applied
// or cannot be.

// CommitOffsets stores a group's positions, all or none.
func (s *Shard) CommitOffsets(k GroupKey, commits []OffsetCommit, done func(error)) {
	s.propose(&commitOffsetsCommand{k, commits}, errorOnly(done))
}

// DeleteOffsets forgets positions of a group; if before is not 0 only those that
// were stored before that time (ms since 1970), so that one that is committed
// meanwhile stays.
func (s *Shard) DeleteOffsets(k GroupKey, offsets []OffsetKey, before int64, done func(error)) {
	s.propose(&deleteOffsetsCommand{key: k, offsets: offsets, before: before}, errorOnly(done))
}

// DeleteGroup forgets a group: its state and all its positions.
func (s *Shard) DeleteGroup(k GroupKey, done func(error)) {
	s.propose(&deleteOffsetsCommand{key: k, all: true}, errorOnly(done))
}

// PutGroup stores a group's state; an empty blob forgets it.
func (s *Shard) PutGroup(k GroupKey, blob []byte, done func(error)) {
	s.propose(&putGroupCommand{k, append([]byte(nil), blob...)}, errorOnly(done))
}

func errorOnly(done func(error)) func(any, error) { return func(_ any, err error) { done(err) } }

// Leadership gives the term in which this replica leads, false if it does not.
func (s *Shard) Leadership() (term uint64, leads bool) { return s.epoch.Load(), s.leading.Load() }

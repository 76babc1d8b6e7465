package shard

import "encoding/binary"

// readQueue holds those who want to read what is committed now: first until a
// majority has said what that is, then until it is applied.
type readQueue struct {
	next      uint64
	asked     map[uint64]chan<- error
	confirmed []confirmedRead
}

type confirmedRead struct {
	index uint64
	c     chan<- error
}

// readIndex starts a read; c has room for the answer.
func (s *Shard) readIndex(c chan<- error) {
	if !s.leading.Load() {
		c <- s.notLeader()
		return
	}
	q := &s.reads
	q.next++
	if q.asked == nil {
		q.asked = make(map[uint64]chan<- error)
	}
	q.asked[q.next] = c
	s.raft.ReadIndex(binary.LittleEndian.AppendUint64(nil, q.next))
}

func (q *readQueue) confirm(id, index uint64) {
	if c := q.asked[id]; c != nil {
		delete(q.asked, id)
		q.confirmed = append(q.confirmed, confirmedRead{index, c})
	}
}

func (q *readQueue) serve(applied uint64) {
	keep := q.confirmed[:0]
	for _, r := range q.confirmed {
		if r.index <= applied {
			r.c <- nil
		} else {
			keep = append(keep, r)
		}
	}
	q.confirmed = keep
}

func (q *readQueue) fail(err error) {
	for _, c := range q.asked {
		c <- err
	}
	for _, r := range q.confirmed {
		r.c <- err
	}
	q.asked, q.confirmed = nil, nil
}

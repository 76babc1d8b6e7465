package shard

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestJournalForgets: what is told is complete, or it is said that it is not.
func TestJournalForgets(t *testing.T) {
	j := journal{first: 1}
	id := func(n int) rhumb.UUID { return rhumb.UUID{byte(n), byte(n >> 8), byte(n >> 16), 1} }
	const changes = 3 * journalKept
	for n := range changes {
		j.note(id(n))
		if len(j.ids) > journalKept {
			t.Fatalf("%d changes are kept", len(j.ids))
		}
	}
	if _, ok := j.since(0); ok {
		t.Error("it tells of changes before its time")
	}
	if _, ok := j.since(1); ok {
		t.Error("it tells of changes that it forgot")
	}
	if _, ok := j.since(j.next() + 1); ok {
		t.Error("it tells of changes to come")
	}
	ids, ok := j.since(changes - 9)
	if !ok || len(ids) != 10 || ids[0] != id(changes-10) || ids[9] != id(changes-1) {
		t.Errorf("the last ten: %v %v", ids, ok)
	}
	before := j.next()
	j.note(rhumb.UUID{})
	if _, ok := j.since(before); ok {
		t.Error("a change that concerns no topic alone is told as one of a topic")
	}
	j.forget()
	if _, ok := j.since(before); ok {
		t.Error("it remembers after it forgot")
	}
	if ids, ok := j.since(j.next()); !ok || len(ids) != 0 {
		t.Errorf("nothing since now: %v %v", ids, ok)
	}
}

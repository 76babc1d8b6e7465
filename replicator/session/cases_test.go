package session

import "testing"

// Public failures of other systems that touch a session, each as a story. The
// ids are those of the list of cases.

// TestG01OneFailedSend: one message fails, those behind it must not overtake it.
func TestG01OneFailedSend(t *testing.T) { play(t, "g01-one-failed-send") }

// TestG01LostInTheMiddle: a message that never arrives makes the source go back.
func TestG01LostInTheMiddle(t *testing.T) { play(t, "g01-lost-in-the-middle") }

// TestG08RetentionOutrunsTheLink: what the source dropped is a gap with its range.
func TestG08RetentionOutrunsTheLink(t *testing.T) { play(t, "g08-retention") }

// TestG10RecreatedTopic: a new life starts at its beginning.
func TestG10RecreatedTopic(t *testing.T) { play(t, "g10-recreated") }

// TestG16NothingIsConfirmedBeforeItIsStored: crashes on both sides in the middle.
func TestG16NothingIsConfirmedBeforeItIsStored(t *testing.T) { play(t, "g16-crashes") }

// TestG28StaleRead: the result of a read from before a rewind changes nothing.
func TestG28StaleRead(t *testing.T) { play(t, "g28-stale-read") }

// TestG29PermitsReturn: a failed message leaves nothing in flight, and the
// session resumes when the quota clears.
func TestG29PermitsReturn(t *testing.T) { play(t, "g29-quota") }

// TestG46HolesAreRanges: other origins' offsets are one skip; caught up is a
// position.
func TestG46HolesAreRanges(t *testing.T) { play(t, "g46-holes") }

// TestG92OneWindow: however reads and rewinds meet, there is one window.
func TestG92OneWindow(t *testing.T) { play(t, "g92-one-window") }

// TestI3RestoredSource: a source from an old copy is found out when it opens.
func TestI3RestoredSource(t *testing.T) { play(t, "restored-source") }

// TestI3EntriesOfAnOldLeader: what was answered with an error may be stored all
// the same; it is not stored twice.
func TestI3EntriesOfAnOldLeader(t *testing.T) { play(t, "old-leader") }

// TestEdgeStartsLatest: what lies before the edge's start is a skip of policy.
func TestEdgeStartsLatest(t *testing.T) { play(t, "start-latest") }

// TestI12UnflushedStays: what a crash can forget does not leave.
func TestI12UnflushedStays(t *testing.T) { play(t, "i12-unflushed") }

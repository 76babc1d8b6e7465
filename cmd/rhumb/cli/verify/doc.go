// Package verify compares what two regions hold of the same topics, record by
// record, while traffic goes on. It is what "rhumb verify" runs.
//
// # What is compared
//
// Copies of a topic in two regions are different logs: they interleave origins
// differently. So each origin life is compared by itself: records published in
// A, in B, and in third regions that both should hold.
//
// Watermarks are taken first, the one that follows before the one that leads:
// where A's records arrive in B, B's before A's. Up to the lower of both
// watermarks both regions account for everything; above the higher of both
// floors both vouch for it. In that range the two must hold the same records in
// the same order. Behind the watermark a region is late, which is shown and is
// no difference. At and below a floor, records on one side only are explained (by
// the gap record that covers them, else by retention or the edge's start) and
// counted; records that both hold must be the same there too.
//
// A life that its region closed is compared up to its end only: behind it regions
// may differ for good, since a restored region took promises back.
// What one side has behind it, or of a life that its region lost with its disk, and
// the other side has under no life of that region, is counted: no link brings it there.
//
// # How
//
// Both sides stream a digest of what they hold of the life, in the order of their
// log. Equal batches (place, count, CRC, hash) are equal. Where batches differ,
// or are cut differently, the records of just that range are compared by their
// hashes. Memory is bounded: one batch's digest per side, and at most 100 ranges
// per kind of finding; counts stay exact.
//
// If a comparison found something, the floors are taken again: what retention dropped
// meanwhile is explained.
//
// # Result
//
// Equal: all that could be compared is. Incomplete: so it is, but one side has
// records of earlier lives, or of removed regions of which the other has some, that no link brings to the other one. Differs: at least one record is missing,
// extra, out of order or different. Unknown: nothing differs, but something that
// should have been compared could not be.
package verify

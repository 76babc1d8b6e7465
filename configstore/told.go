package configstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// MaxSightings bounds the documents that one [Told] names. One would do: a document that
// the store lost is missed by who has not seen it, and seen to be lost by who has.
const MaxSightings = 16

// Sighting is a version of a document that a region has seen.
type Sighting struct {
	Key     string
	Version uint64
	Sum     [16]byte // begins the content's [Hash]
}

// Told is what a region tells its peers of the documents that it has seen, while it does
// not follow its store. The zero value says that it does, or that it has seen nothing
// which the store lacks. It never repeats what others told: a word has one who answers
// for it, and ends with that one's.
type Told struct {
	Since time.Time // since when the region does not follow the store
	// Changes is the sum of the versions of all documents that it has seen. It grows by
	// one with each change of any document, so a store with a lower sum has lost some.
	Changes uint64
	// Seen are documents by which the store went back, MaxSightings at most.
	Seen []Sighting
}

// Equal reports whether both say the same.
func (t Told) Equal(o Told) bool {
	return t.Since.Equal(o.Since) && t.Changes == o.Changes && slices.Equal(t.Seen, o.Seen)
}

// Removal is the word of a peer whose documents say that this region was removed from the
// mesh, as evidence: which version of which document says so.
type Removal struct {
	By      rhumb.RegionName // the peer
	Name    rhumb.RegionName
	Number  rhumb.RegionNumber
	Version uint64 // of the document of the region's name
	At      time.Time
}

// word is what a peer said last.
type word struct {
	told    Told
	removal Removal // Version 0: none
	taken   bool    // it took this region's link since it last said that it was removed
}

// Tell gives what peers are to be told. It changes when the status does.
func (v *View) Tell() Told {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.telling
}

// Hear takes what a peer tells of what it has seen, in place of what it told before. While
// the store lacks any of it the View is in StateWentBack and writes are refused. That ends
// with the first read in which the store has it, when the peer says otherwise, or when the
// peer is no region any more. It is not kept: a View that is opened anew was told nothing.
func (v *View) Hear(peer rhumb.RegionName, t Told) {
	v.listen(peer, func(w *word) bool {
		same := w.told.Equal(t)
		w.told = t
		return !same
	})
}

// HearRemoval takes the word of a peer, r.By, that this region was removed.
func (v *View) HearRemoval(r Removal) {
	v.listen(r.By, func(w *word) bool {
		same := w.removal == r
		w.removal, w.taken = r, false
		return !same
	})
}

// HearMember withdraws what [View.HearRemoval] took of a peer: it takes this region for one
// of the mesh, as [View.TakenBy] tells.
func (v *View) HearMember(peer rhumb.RegionName) {
	v.listen(peer, func(w *word) bool {
		was := w.removal
		w.removal, w.taken = Removal{}, true
		return was != Removal{}
	})
}

// listen changes what a peer said, and has the store compared with that if it is new.
func (v *View) listen(peer rhumb.RegionName, change func(*word) bool) {
	v.mu.Lock()
	w := v.words[peer]
	was := w
	news := change(&w)
	v.words[peer] = w
	if w.removal.Version == 0 && !w.taken && w.told.Equal(Told{}) {
		delete(v.words, peer)
	}
	disputed := slices.ContainsFunc(slices.Collect(maps.Values(v.words)), func(w word) bool { return w.removal.Version > 0 })
	v.mu.Unlock()
	if w.removal != was.removal || disputed && w.taken != was.taken { // counts without a look at the store
		defer v.tell()
	}
	if !news {
		return
	}
	select {
	case v.heard <- struct{}{}:
	default:
	}
}

// forget drops the words, also from said, of regions that are no more in the next picture,
// or have another number there: a former region of the name said them.
func (v *View) forget(next *picture, said map[rhumb.RegionName]word) {
	was := v.shown.Load()
	former := func(peer rhumb.RegionName, _ word) bool {
		return was.member(peer) && (!next.member(peer) || was.regions[peer].Number != next.regions[peer].Number)
	}
	maps.DeleteFunc(said, former)
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.words, former)
}

// said gives what peers said until now. What is read of the store after it is no older.
func (v *View) said() map[rhumb.RegionName]word {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.words)
}

// Removal gives the evidence that this region was removed, of which its own documents do
// not know: the highest version that a peer names. A region's number is given once and
// retired once, so who has seen that knows more than any number of peers who have not, and
// than documents of a higher version that still have the region: they were written by who
// did not know of it, in a store that went back. Only a newer number of the name is newer.
//
// A single peer may be wrong. What the evidence stops is therefore only what can wait,
// changes of the mesh's documents, while [View.TakenBy] names regions that disagree.
func (v *View) Removal() (Removal, bool) {
	return v.shown.Load().removal(v.said())
}

// TakenBy gives the registered regions that took this region's link, and have not said
// since that it was removed.
func (v *View) TakenBy() (peers []rhumb.RegionName) {
	p, said := v.shown.Load(), v.said()
	for _, peer := range slices.Sorted(maps.Keys(said)) {
		if said[peer].taken && p.member(peer) {
			peers = append(peers, peer)
		}
	}
	return peers
}

// removal gives the best evidence of what peers said.
func (p *picture) removal(said map[rhumb.RegionName]word) (best Removal, ok bool) {
	for _, peer := range slices.Sorted(maps.Keys(said)) {
		if r := said[peer].removal; r.Version > best.Version && p.member(peer) && p.lacks(r) {
			best = r
		}
	}
	return best, best.Version > 0
}

// member reports whether a name is that of a registered region.
func (p *picture) member(name rhumb.RegionName) bool {
	r, ok := p.regions[name]
	return ok && !r.Deleted
}

// lacks reports whether a removal is not known here, and no newer number of the name is. A
// document of a higher version that still has the number does not know of it either: revives.
func (p *picture) lacks(r Removal) bool {
	owner := p.owners[r.Number]
	return !owner.Gone && p.regions[r.Name].Number <= r.Number
}

// toldError says that the store went back as far as peers tell: what this region itself
// has seen is all there.
type toldError struct{ what string }

func (e *toldError) Error() string { return fmt.Sprintf("%v: %s", ErrWentBack, e.what) }

// Unwrap implements errors.Is.
func (*toldError) Unwrap() error { return ErrWentBack }

// onlyTold reports whether err is about nothing but what peers tell.
func onlyTold(err error) bool {
	var e *toldError
	return errors.As(err, &e)
}

// missed finds what peers have seen and this region has not, although it has all that the
// store has: once for each of such findings, with all who say so. v.reading is held.
func (v *View) missed(said map[rhumb.RegionName]word) (back []Problem) {
	p, by := v.shown.Load(), map[Problem][]rhumb.RegionName{}
	for _, peer := range slices.Sorted(maps.Keys(said)) {
		if !p.member(peer) {
			continue
		}
		for _, found := range v.missedBy(p, said[peer]) {
			if by[found] == nil {
				back = append(back, found)
			}
			by[found] = append(by[found], peer)
		}
	}
	for i, found := range back {
		back[i].Reason = namesOf(by[found]) + found.Reason
	}
	return back
}

// namesOf names regions that have seen something.
func namesOf(peers []rhumb.RegionName) string {
	if len(peers) == 1 {
		return "region " + string(peers[0]) + " has seen "
	}
	var b strings.Builder
	for i, peer := range peers {
		switch {
		case i == len(peers)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(string(peer))
	}
	return "regions " + b.String() + " have seen "
}

// missedBy finds what one peer has seen, in words that go on after "has seen".
func (v *View) missedBy(p *picture, w word) (back []Problem) {
	found := func(key, format string, args ...any) {
		back = append(back, Problem{key, fmt.Sprintf(format, args...)})
	}
	if r, key := w.removal, RegionKey(w.removal.Name); r.Version > 0 && p.lacks(r) {
		found(key, "version %d, by which region %s, number %d, was removed; the store has %s", r.Version, r.Name, r.Number, v.has(key))
	}
	for _, s := range w.told.Seen {
		old, ok := v.seen[s.Key]
		switch {
		case !ok || old.Version < s.Version:
			found(s.Key, "version %d, the store has %s", s.Version, v.has(s.Key))
		case old.Version == s.Version && old.sum() != s.Sum:
			found(s.Key, "version %d with other content than the store has", s.Version)
		}
	}
	if n := w.told.Changes; n > v.changes && len(w.told.Seen) == 0 {
		found(MeshKey, "%d changes of the mesh's documents and cannot read the store, which has %d", n, v.changes)
	}
	return back
}

// blames reports whether a peer is among those on whose words alone changes are refused.
func (v *View) blames(ctx context.Context, peer rhumb.RegionName) bool {
	select {
	case <-ctx.Done():
		return false
	case v.reading <- struct{}{}:
	}
	defer func() { <-v.reading }()
	w, ok := v.said()[peer]
	p := v.shown.Load()
	return ok && p.member(peer) && len(v.missedBy(p, w)) > 0
}

// has says what was seen of a key. v.reading is held.
func (v *View) has(key string) string {
	if d, ok := v.seen[key]; ok {
		return fmt.Sprintf("version %d", d.Version)
	}
	return "none"
}

// sum begins the content hash.
func (d Document) sum() (s [16]byte) {
	h := d.Hash()
	copy(s[:], h[:])
	return s
}

// sightings gives what this region has seen of the documents by which the store went back.
// v.reading is held.
func (v *View) sightings(back []Problem) (list []Sighting) {
	for _, p := range back[:min(len(back), MaxSightings)] {
		if d, ok := v.seen[p.Key]; ok {
			list = append(list, Sighting{d.Key, d.Version, d.sum()})
		}
	}
	slices.SortFunc(list, func(a, b Sighting) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// toldRemoved is why a region that a peer knows to be removed changes nothing.
func toldRemoved(r Removal) error {
	return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s, number %d, left the mesh at %s, says region %s, which has seen version %d of its document; "+
		"the configuration store does not say so: it went back. If it is so, change the mesh in another region and stop this process; if not, "+
		"put the store right: 'rhumb config status --region %s' and 'rhumb config restore' say what was seen there",
		ErrRemoved, r.Name, r.Number, r.At.UTC().Format(time.RFC3339), r.By, r.Version, r.By)
}

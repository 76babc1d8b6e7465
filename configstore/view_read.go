package configstore

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// read lists all documents. v.reading is held.
func (v *View) read(ctx context.Context) ([]Document, error) {
	call, cancel := context.WithTimeoutCause(ctx, v.cfg.CallTimeout,
		rhumb.Errorf(rhumb.KindTimeout, "configstore: %s did not answer within %v", nameOf(v.cfg.Store), v.cfg.CallTimeout))
	defer cancel()
	docs, err := v.cfg.Store.List(call, Prefix)
	if err != nil && ctx.Err() == nil { // our own end says nothing of the store
		v.setState(StateStoreDown, err)
	}
	return docs, err
}

// take brings the picture up to date with a list of the store that was read after peers
// had said what is in said. v.reading is held.
func (v *View) take(docs []Document, said map[rhumb.RegionName]word) error {
	if err := v.checkMesh(docs); err != nil {
		return err
	}
	changed, back := v.compare(docs)
	if len(back) > 0 {
		err := rhumb.Errorf(rhumb.KindForbidden, "%w: %s", ErrWentBack, describe(back))
		v.setState(StateWentBack, err, back...)
		return err
	}
	if len(changed) > 0 {
		v.publish(changed, said)
	}
	v.keep()
	var err error
	if back = v.missed(said); len(back) > 0 {
		err = &rhumb.Error{Kind: rhumb.KindForbidden, Err: &toldError{describe(back)}}
		v.setState(StateWentBack, err, back...)
	} else {
		v.setState(StateCurrent, nil)
	}
	if len(changed) > 0 {
		v.tell()
	}
	return err
}

// checkMesh refuses a store of another mesh, and at first one of none.
func (v *View) checkMesh(docs []Document) error {
	want := v.shown.Load().mesh.UUID
	if want.IsZero() {
		want = v.cfg.Mesh
	}
	i := slices.IndexFunc(docs, func(d Document) bool { return d.Key == MeshKey })
	if i < 0 {
		if len(v.seen) > 0 {
			return nil // compare finds it missing
		}
		err := rhumb.Errorf(rhumb.KindNotFound, "%w", ErrNoMesh)
		v.setState(StateStoreDown, err)
		return err
	}
	m, err := checked[Mesh](docs[i], func(m *Mesh) error { return m.validate(nil) })
	if err == nil && !want.IsZero() && m.UUID != want {
		err = otherMesh("the store", m.UUID, want)
		v.setState(StateOtherMesh, err)
		return err
	}
	if err != nil && want.IsZero() {
		v.setState(StateStoreDown, err)
		return err
	}
	return nil // a mesh document that cannot be read is refused like any other
}

// compare finds the documents that are new, and those by which the store went
// back. A document that is absent in the store was lost, not deleted.
func (v *View) compare(docs []Document) (changed []Document, back []Problem) {
	known := 0
	for _, d := range docs {
		old, ok := v.seen[d.Key]
		if ok {
			known++
		}
		switch {
		case ok && d.Version > old.Version && revives(old, d):
			back = append(back, Problem{d.Key, fmt.Sprintf("the store has the region again with version %d, this region saw the removal of that number with version %d", d.Version, old.Version)})
		case !ok || d.Version > old.Version:
			changed = append(changed, d)
		case d.Version < old.Version:
			back = append(back, Problem{d.Key, fmt.Sprintf("the store has version %d, this region saw version %d", d.Version, old.Version)})
		case !bytes.Equal(d.JSON, old.JSON): // equal hashes, without the hashing
			back = append(back, Problem{d.Key, fmt.Sprintf("the store has version %d with content %v, this region saw the same version with content %v", d.Version, d.Hash(), old.Hash())})
		}
	}
	if known == len(v.seen) {
		return changed, back // none is missing: keys of a list differ
	}
	found := make(map[string]bool, len(docs))
	for _, d := range docs {
		found[d.Key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(v.seen)) {
		if !found[key] {
			back = append(back, Problem{key, fmt.Sprintf("the store has none, this region saw version %d", v.seen[key].Version)})
		}
	}
	return changed, back
}

// revives reports whether a document has a region under a number that an older one retired. A
// number is given once, and retired once: who wrote that did not know of the removal, in a store
// that went back, and its version, however high, says nothing.
func revives(old, d Document) bool {
	if !strings.HasPrefix(d.Key, RegionsPrefix) {
		return false
	}
	var was, is Region
	if json.Unmarshal(old.JSON, &was) != nil || json.Unmarshal(d.JSON, &is) != nil {
		return false // what cannot be read is refused by itself
	}
	return is.Number < was.Number || is.Number == was.Number && was.Deleted && !is.Deleted
}

// publish shows the picture after the changed documents. One that is refused
// leaves its former version in force. Of said it takes what nobody says any more.
func (v *View) publish(changed []Document, said map[rhumb.RegionName]word) {
	next := v.shown.Load().clone()
	for _, d := range changed {
		old, had := v.seen[d.Key]
		v.note(d)
		err := next.put(d)
		before, wasRefused := v.refused[d.Key]
		delete(v.refused, d.Key)
		if err == nil {
			continue
		}
		r := refusal{reason: err.Error()}
		switch {
		case wasRefused:
			r.inForce = before.inForce
		case had:
			r.inForce = &old
		}
		v.refused[d.Key] = r
		v.log.Warn("document refused, its former version stays in force", "key", d.Key, "version", d.Version, "err", err)
	}
	next.link()
	v.forget(next, said)
	v.shown.Store(next)
	v.unkept = true
}

// note makes d the version seen of its key.
func (v *View) note(d Document) {
	if old, ok := v.seen[d.Key]; ok {
		v.digest.toggle(old)
		v.changes -= old.Version
	}
	v.changes += d.Version
	v.seen[d.Key] = d
	v.digest.toggle(d)
}

// A copy that took longKeep or more is not saved again for keepShare times what it
// took, and no longer than RereadEvery: what came meanwhile is saved by the read then.
const (
	longKeep  = 100 * time.Millisecond
	keepShare = 9
)

// keep saves the last good copy if it changed. A disk that is full does not hold
// policy back: it is tried again at each read, and the status says so. A copy that
// takes long to save, with tens of thousands of documents, is saved less often.
func (v *View) keep() {
	began := time.Now()
	if !v.unkept || began.Before(v.keepAt) {
		return
	}
	defer func() {
		if took := time.Since(began); took >= longKeep {
			v.keepAt = time.Now().Add(min(keepShare*took, v.cfg.RereadEvery))
		}
	}()
	var k kept
	for _, key := range slices.Sorted(maps.Keys(v.seen)) {
		k.Seen = append(k.Seen, keptDocument{key, v.seen[key].JSON})
		if r, ok := v.refused[key]; ok && r.inForce != nil {
			k.InForce = append(k.InForce, keptDocument{key, r.inForce.JSON})
		}
	}
	raw, err := encodeKept(k)
	if err == nil {
		err = v.cfg.Keeper.Save(raw)
	}
	v.unkept = err != nil
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status.KeepErr = err
}

// setState notes what a read found. v.reading is held.
func (v *View) setState(state ViewState, err error, back ...Problem) {
	problems := slices.Clone(back)
	for _, key := range slices.Sorted(maps.Keys(v.refused)) {
		problems = append(problems, Problem{key, v.refused[key].reason})
	}
	problems = append(problems, v.shown.Load().dropped...)
	now, told := time.Now(), onlyTold(err)
	seen := v.sightings(back)
	v.mu.Lock()
	was := v.status.State
	if was != state {
		v.status.Since = now
	}
	if state == StateCurrent || told {
		v.status.LastRead = now
	}
	lost := v.telling.Seen
	v.telling = Told{}
	if state != StateCurrent && !told {
		if state != StateWentBack {
			seen = lost // until a read of the store says whether they still are
		}
		v.telling = Told{Since: v.status.Since, Changes: v.changes, Seen: seen}
	}
	v.status.State, v.status.Err, v.status.Problems = state, err, problems
	v.status.Documents, v.status.Digest = len(v.seen), hex.EncodeToString(v.digest[:8])
	v.mu.Unlock()
	switch {
	case was == state:
	case state == StateCurrent:
		v.log.Info("configuration store is read", "documents", len(v.seen))
	case state == StateStoreDown:
		v.log.Warn("configuration store is down, last good copy stays in force", "err", err)
	case told:
		v.log.Error("configuration store went back, as peers have seen more than it has: changes are refused", "err", err)
	default:
		v.log.Error("configuration store is refused, last good copy stays in force", "state", state.String(), "err", err)
	}
}

// tell calls the subscribers. v.mu is not held.
func (v *View) tell() {
	v.mu.Lock()
	subs := slices.Collect(maps.Keys(v.subs))
	v.mu.Unlock()
	for _, s := range subs {
		s.fn()
	}
}

// describe names the first few of what went back.
func describe(back []Problem) string {
	const most = 3
	var b strings.Builder
	for i, p := range back[:min(len(back), most)] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.Key + ": " + p.Reason)
	}
	if more := len(back) - most; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

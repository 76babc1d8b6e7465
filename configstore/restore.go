package configstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Restorer is a [Store] that can put back documents which it lost: it stores them
// whatever their versions, where [Store.Put] only goes forward.
type Restorer interface {
	// Restore stores each document, if what the store has of its key is still Was;
	// else [ErrConflict]. After an error some may be stored and others not: the
	// caller compares anew.
	Restore(ctx context.Context, list []Replacement) error
}

// Replacement is a document to put back in place of another one.
type Replacement struct {
	Document Document
	// Was is what the store has now; nil: nothing.
	Was *Document
}

// CheckReplacement is what every backend asks before it stores: the document is
// whole, and no older than what it replaces.
func CheckReplacement(r Replacement) error {
	if err := CheckPut(r.Document, r.Document.Version-1); err != nil {
		return err
	}
	if r.Was != nil && (r.Was.Key != r.Document.Key || r.Was.Version >= r.Document.Version) {
		return rhumb.Errorf(rhumb.KindInvalid, "configstore: restore %s: version %d cannot replace version %d", r.Document.Key, r.Document.Version, r.Was.Version)
	}
	return nil
}

// Restored says what was done, or is to be done, with one document of a store that
// went back.
type Restored struct {
	Key string
	// Had is the version that the store had, 0: none. It is lost: HadBy and HadAt tell
	// who wrote it and when, perhaps somebody who did not know that the store went back.
	Had   uint64
	HadBy string
	// HadCaller is on whose behalf, empty if that is not known.
	HadCaller string
	HadAt     time.Time
	// Version is the one that it has now: the highest that this region saw, or the
	// next one where the store had other content under that version.
	Version uint64
}

// Restore puts this region's copies back into a store that went back: each document
// that the store lost, or of which it has an older version, as it was seen; one of
// which it has the same version with other content, or a region again that was removed,
// as the next version, so that every region takes this region's. What the store has newer stays. Another region
// may have seen more: each puts back its own, in any order.
//
// With dry it changes nothing and says what it would do. by is written into
// documents that get a new version. A store that did not go back is left alone.
func (v *View) Restore(ctx context.Context, by string, dry bool) ([]Restored, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case v.reading <- struct{}{}:
	}
	defer func() { <-v.reading }()
	said := v.said()
	docs, err := v.read(ctx)
	if err != nil {
		return nil, err
	}
	switch err := v.take(docs, said); {
	case err == nil, onlyTold(err): // what peers have seen they put back
		return nil, nil
	case !errors.Is(err, ErrWentBack):
		return nil, err
	}
	list, err := v.replacements(docs, by)
	if err != nil {
		return nil, err
	}
	done := make([]Restored, 0, len(list))
	for _, r := range list {
		one := Restored{Key: r.Document.Key, Version: r.Document.Version}
		if r.Was != nil {
			one.Had, one.HadBy, one.HadCaller, one.HadAt = r.Was.Version, r.Was.UpdatedBy, r.Was.UpdatedCaller.Name, r.Was.UpdatedAt
		}
		done = append(done, one)
	}
	if dry {
		return done, nil
	}
	store, ok := v.cfg.Store.(Restorer)
	if !ok {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "configstore: this store takes nothing back")
	}
	if err := store.Restore(ctx, list); err != nil {
		return nil, err
	}
	v.log.Warn("documents were put back into the configuration store", "documents", len(done), "by", by)
	if docs, err = v.read(ctx); err != nil {
		return done, err
	}
	if err = v.take(docs, said); onlyTold(err) {
		err = nil
	}
	return done, err
}

// replacements are the documents by which the store went back, that of the mesh
// first: without it a region that starts for the first time would make another one.
func (v *View) replacements(docs []Document, by string) ([]Replacement, error) {
	stored := make(map[string]*Document, len(docs))
	for i := range docs {
		stored[docs[i].Key] = &docs[i]
	}
	_, back := v.compare(docs)
	list := make([]Replacement, 0, len(back))
	for _, p := range back {
		r := Replacement{Document: v.seen[p.Key], Was: stored[p.Key]}
		if r.Was != nil && r.Was.Version >= r.Document.Version {
			r.Document.Version = r.Was.Version // higher where the store revived a number
			next, err := nextVersion(r.Document, by, time.Now())
			if err != nil {
				return nil, err
			}
			r.Document = next
		}
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b Replacement) int { return mattersFirst(a) - mattersFirst(b) })
	return list, nil
}

func mattersFirst(r Replacement) int {
	switch {
	case r.Document.Key == MeshKey:
		return 0
	case strings.HasPrefix(r.Document.Key, RegionsPrefix):
		return 1
	}
	return 2
}

// nextVersion gives the same content under the next version, whatever the fields.
func nextVersion(d Document, by string, at time.Time) (Document, error) {
	o, err := parseObject(d.JSON)
	if err != nil {
		return Document{}, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: %w", d.Key, err)
	}
	m, err := objectOf(&Meta{Version: d.Version + 1, UpdatedAt: at.UTC().Truncate(time.Millisecond), UpdatedBy: by, Deleted: d.Deleted})
	if err != nil {
		return Document{}, err
	}
	delete(o, "updated_caller")
	for name, value := range m {
		o[name] = value
	}
	return documentOf(d.Key, o)
}

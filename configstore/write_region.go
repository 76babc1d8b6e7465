package configstore

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// EnsureMesh gives the store's mesh and makes one if there is none. Of several
// that make one at once, one wins and all get it. [OpenView] calls it for a
// first start only: a store that lost its mesh went back.
func (w *Writer) EnsureMesh(ctx context.Context) (Mesh, error) {
	return apply(ctx, w, change[Mesh]{
		key: MeshKey,
		edit: func(m *Mesh) error {
			if !m.UUID.IsZero() {
				return errUnchanged
			}
			m.UUID, m.Secret = rhumb.NewUUID(), make([]byte, secretSize)
			rand.Read(m.Secret) // never fails: crypto/rand aborts the process instead
			return nil
		},
		check: func(_ context.Context, m, old *Mesh) error { return m.validate(old) },
	})
}

// RegisterRegion writes a region's document at its start, and gives it as stored.
//
// A name that is new gets the next region number: above every number in the store
// and above seen, the highest that the caller ever saw (in its own data directory,
// from peers). r.Number zero leaves the number to the store; another one must fit
// that rule, or be the one that the region has.
//
// A region that is there keeps its number and state. Its addresses are brought up
// to date, unless they are pinned. Its data directory must be the one that the
// document names, if it names one: otherwise [ErrOtherData], until
// [Writer.ReplaceRegion]. One that the document of another region names is refused
// ([ErrOthers]): its log is that region's.
//
// A name whose region was removed comes back under a new number, but only when an
// operator says so, with [Writer.AddRegion]: a process of it, which has a data
// directory, is refused ([ErrRemoved]), and so is the data directory of a region
// that was removed, under whichever name. No life is ever told under two numbers.
func (w *Writer) RegisterRegion(ctx context.Context, r Region, seen rhumb.RegionNumber) (Region, error) {
	return w.register(ctx, r, seen, false)
}

// AddRegion registers a region that is to start for the first time. It is refused,
// of kind exists, if there is one of that name; one that was removed comes back
// under a new number.
func (w *Writer) AddRegion(ctx context.Context, r Region, seen rhumb.RegionNumber) (Region, error) {
	return w.register(ctx, r, seen, true)
}

func (w *Writer) register(ctx context.Context, r Region, seen rhumb.RegionNumber, add bool) (Region, error) {
	if err := r.Name.Validate(); err != nil {
		return Region{}, err
	}
	var taken rhumb.RegionNumber // by this call: kept when the put has to be repeated
	return apply(ctx, w, change[Region]{
		key: RegionKey(r.Name),
		edit: func(stored *Region) error {
			if stored.Version != 0 && add {
				return rhumb.Errorf(rhumb.KindExists, "configstore: region %s is registered already, with number %d: see it with 'rhumb region show %s'", r.Name, stored.Number, r.Name)
			}
			ctx, cancel := w.patient(ctx)
			defer cancel()
			if err := w.checkData(ctx, r, stored.DataUUID); err != nil {
				return err
			}
			if stored.Version != 0 {
				return adopt(stored, r)
			}
			former, err := w.former(ctx, r)
			if err != nil {
				return err
			}
			if taken == 0 {
				if taken, err = w.takeNumber(ctx, r, seen); err != nil {
					return err
				}
			}
			*stored = newRegion(r, taken, former)
			return nil
		},
		check: func(_ context.Context, v, old *Region) error { return v.validate(old) },
	})
}

// newRegion gives the first document of a region.
func newRegion(r Region, number rhumb.RegionNumber, former []Former) Region {
	r.Number, r.Rebuilds, r.Former = number, 0, former
	r.Meta, r.Forced, r.Pinned, r.StateAt = Meta{}, false, false, time.Time{}
	if r.State == "" {
		r.State = RegionActive
	}
	r.JoinedAt = time.Time{}
	if !r.DataUUID.IsZero() {
		r.JoinedAt = joinTime()
	}
	return r
}

func joinTime() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// former gives the numbers that regions of the name had before. A process is
// refused where there are any: only an operator brings a name back.
func (w *Writer) former(ctx context.Context, r Region) ([]Former, error) {
	d, err := w.store.Get(ctx, RegionKey(r.Name))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	was, _, err := decode[Region](d)
	if err != nil || !was.Deleted {
		return nil, err // not deleted: somebody else was faster, and the put says so
	}
	if !r.DataUUID.IsZero() {
		return nil, removed(&was)
	}
	return append(was.Former, was.gone()), nil
}

// removed says what to do about the process of a region that was removed.
func removed(r *Region) error {
	return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s, number %d, left the mesh at %s (by %s), and its number is retired; its data stays where it is; "+
		"to have the name back under a new number, run 'rhumb region register %s' and start with an empty data directory",
		ErrRemoved, r.Name, r.Number, r.UpdatedAt.UTC().Format(time.RFC3339), r.Who(), r.Name)
}

// checkData refuses the data directory of a region that was removed, and, but for the one
// that the region has, that of another one.
func (w *Writer) checkData(ctx context.Context, r Region, has rhumb.UUID) error {
	if r.DataUUID.IsZero() {
		return nil
	}
	all, err := listAs[Region](ctx, w.store, RegionsPrefix) // tombstones too
	if err != nil {
		return err
	}
	for _, other := range all {
		for _, o := range other.owners() {
			if o.Gone && o.DataUUID == r.DataUUID && (o.Name != r.Name || !other.Deleted) {
				return rhumb.Errorf(rhumb.KindForbidden, "%w: data directory %s is that of region %s, number %d, which was removed from the mesh; "+
					"start region %s with an empty data directory", ErrRemoved, r.DataUUID, o.Name, o.Number, r.Name)
			}
			if !o.Gone && o.DataUUID == r.DataUUID && o.Name != r.Name && has != r.DataUUID {
				return rhumb.Errorf(rhumb.KindForbidden, "%w: data directory %s is that of region %s, number %d, and stays so for ever: "+
					"correct data_dir or region.name in the file of region %s", ErrOthers, r.DataUUID, o.Name, o.Number, r.Name)
			}
		}
	}
	return nil
}

// adopt brings the stored document of a region up to date with what the region
// says of itself.
func adopt(stored *Region, r Region) error {
	first := stored.JoinedAt.IsZero() && !r.DataUUID.IsZero()
	same := stored.Pinned || stored.SameAddresses(&r)
	switch {
	case r.Number != 0 && r.Number != stored.Number:
		return rhumb.Errorf(rhumb.KindForbidden, "configstore: region %s has number %d in the store, not %d", r.Name, stored.Number, r.Number)
	case !stored.DataUUID.IsZero() && !r.DataUUID.IsZero() && stored.DataUUID != r.DataUUID:
		return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s has data directory %s in the store, this one is %s; if the old one is gone for good, 'rhumb region replace %s --yes' has this one taken",
			ErrOtherData, r.Name, stored.DataUUID, r.DataUUID, r.Name)
	case same && !first && (r.DataUUID.IsZero() || stored.DataUUID == r.DataUUID):
		return errUnchanged
	}
	if first {
		stored.JoinedAt = joinTime()
	}
	if !r.DataUUID.IsZero() {
		stored.DataUUID = r.DataUUID
	}
	if !stored.Pinned {
		stored.Addresses, stored.Geo = r.Addresses, r.Geo
	}
	return nil
}

// takeNumber takes a region number by raising the mesh's. A number that is taken
// and then not used, because of a crash between the two puts, is lost.
func (w *Writer) takeNumber(ctx context.Context, r Region, seen rhumb.RegionNumber) (rhumb.RegionNumber, error) {
	all, err := listAs[Region](ctx, w.store, RegionsPrefix) // tombstones too
	if err != nil {
		return 0, err
	}
	for _, other := range all {
		seen = max(seen, other.Number)
	}
	mesh, err := apply(ctx, w, change[Mesh]{
		key: MeshKey,
		edit: func(m *Mesh) error {
			if m.UUID.IsZero() {
				return rhumb.Errorf(rhumb.KindNotFound, "%w", ErrNoMesh)
			}
			last := max(m.LastNumber, seen)
			switch {
			case r.Number != 0 && r.Number <= last:
				return inDocument(RegionKey(r.Name), invalid("number", "%d cannot be given: numbers up to %d were given before", r.Number, last))
			case r.Number != 0:
				last = r.Number
			case last >= rhumb.MaxRegionNumber:
				return inDocument(RegionKey(r.Name), invalid("number", "all %d are used", rhumb.MaxRegionNumber))
			default:
				last++
			}
			m.LastNumber = last
			return nil
		},
		check: func(_ context.Context, m, old *Mesh) error { return m.validate(old) },
	})
	return mesh.LastNumber, err
}

// ReplaceRegion says that a region's data directory is gone for good: the next
// one that registers under the name is taken. Number and name stay, Rebuilds
// goes up by one.
func (w *Writer) ReplaceRegion(ctx context.Context, name rhumb.RegionName) (Region, error) {
	return w.editRegion(ctx, name, func(r *Region) error {
		r.DataUUID = rhumb.UUID{}
		r.Rebuilds++
		return nil
	})
}

func (w *Writer) editRegion(ctx context.Context, name rhumb.RegionName, edit func(*Region) error) (Region, error) {
	return apply(ctx, w, change[Region]{
		key: RegionKey(name),
		edit: func(r *Region) error {
			if r.Version == 0 {
				return NotFound(RegionKey(name))
			}
			return edit(r)
		},
		check: func(_ context.Context, v, old *Region) error { return v.validate(old) },
	})
}

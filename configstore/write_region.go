package configstore

import (
	"context"
	"crypto/rand"
	"errors"

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
// A name that is new, or comes back after its deletion, gets the next region
// number: above every number in the store and above seen, the highest that
// the caller ever saw (in its own data directory, from peers). r.Number zero
// leaves the number to the store; another one must fit that rule, or be the one
// that the region has.
//
// A region that is there keeps its number. Its addresses and CA are brought up
// to date. Its data directory must be the one that the document names, if it
// names one: otherwise [ErrOtherData], until [Writer.ReplaceRegion].
func (w *Writer) RegisterRegion(ctx context.Context, r Region, seen rhumb.RegionNumber) (Region, error) {
	if err := r.Name.Validate(); err != nil {
		return Region{}, err
	}
	var taken rhumb.RegionNumber // by this call: kept when the put has to be repeated
	return apply(ctx, w, change[Region]{
		key: RegionKey(r.Name),
		edit: func(stored *Region) error {
			if stored.Version != 0 {
				return adopt(stored, r)
			}
			if taken == 0 {
				var err error
				if taken, err = w.takeNumber(ctx, r, seen); err != nil {
					return err
				}
			}
			meta := stored.Meta
			*stored = r
			stored.Meta, stored.Number, stored.Rebuilds = meta, taken, 0
			if stored.State == "" {
				stored.State = RegionActive
			}
			return nil
		},
		check: func(_ context.Context, v, old *Region) error { return v.validate(old) },
	})
}

// adopt brings the stored document of a region up to date with what the region
// says of itself.
func adopt(stored *Region, r Region) error {
	switch {
	case r.Number != 0 && r.Number != stored.Number:
		return rhumb.Errorf(rhumb.KindForbidden, "configstore: region %s has number %d in the store, not %d", r.Name, stored.Number, r.Number)
	case !stored.DataUUID.IsZero() && !r.DataUUID.IsZero() && stored.DataUUID != r.DataUUID:
		return rhumb.Errorf(rhumb.KindForbidden, "%w: region %s has data directory %s in the store, this one is %s; if the old one is gone for good, run: rhumb region replace %s --yes --config-store DIR",
			ErrOtherData, r.Name, stored.DataUUID, r.DataUUID, r.Name)
	case stored.SameAddresses(&r) && (r.DataUUID.IsZero() || stored.DataUUID == r.DataUUID):
		return errUnchanged
	}
	if !r.DataUUID.IsZero() {
		stored.DataUUID = r.DataUUID
	}
	stored.Addresses, stored.Geo, stored.CAFingerprint = r.Addresses, r.Geo, r.CAFingerprint
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

// DeleteRegion writes a region's tombstone; its number is never given again. It
// is refused while a namespace or a tenant names the region. No message is
// deleted by it.
func (w *Writer) DeleteRegion(ctx context.Context, name rhumb.RegionName) error {
	_, err := w.editRegion(ctx, name, func(r *Region) error {
		r.Deleted = true
		return w.checkUnused(ctx, name)
	})
	return err
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

func (w *Writer) checkUnused(ctx context.Context, name rhumb.RegionName) error {
	spaces, err := listAs[Namespace](ctx, w.store, NamespacesPrefix)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	for _, ns := range spaces {
		if !ns.Deleted && ns.names(name) {
			return invalid("deleted", "namespace %s/%s names the region: take it out there first", ns.Tenant, ns.Name)
		}
	}
	tenants, err := listAs[Tenant](ctx, w.store, TenantsPrefix)
	if err != nil {
		return err
	}
	for _, t := range tenants {
		if !t.Deleted && t.AllowedRegions != nil && t.Allows(name) {
			return invalid("deleted", "tenant %s allows the region: take it out there first", t.Name)
		}
	}
	return nil
}

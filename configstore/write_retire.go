package configstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// UpdateRegion changes the addresses of a region that is registered. The edit sees
// the stored document; what is not an address, nor Pinned, stays as it is.
func (w *Writer) UpdateRegion(ctx context.Context, name rhumb.RegionName, edit func(*Region) error) (Region, error) {
	return w.editRegion(ctx, name, func(r *Region) error {
		v := *r
		if err := edit(&v); err != nil {
			return err
		}
		r.Addresses, r.Geo, r.Pinned = v.Addresses, v.Geo, v.Pinned
		return nil
	})
}

// SetRegionCAs notes which CA signed the certificate of a region's links, and which
// ones they trust.
func (w *Writer) SetRegionCAs(ctx context.Context, name rhumb.RegionName, signer string, trusted []string) (Region, error) {
	return w.editRegion(ctx, name, func(r *Region) error {
		r.CAFingerprint, r.TrustedCAs = signer, slices.Clone(trusted)
		return nil
	})
}

// DrainRegion has a region take no producers any more, or take them again (undo).
// Asked a second time it changes nothing.
func (w *Writer) DrainRegion(ctx context.Context, name rhumb.RegionName, undo bool) (Region, error) {
	return w.editRegion(ctx, name, func(r *Region) error {
		if drains := r.Drains(); drains != undo {
			return errUnchanged
		}
		r.State, r.StateAt = RegionDraining, joinTime()
		if undo {
			r.State = RegionActive
		}
		return nil
	})
}

// Drains reports whether the region takes no producers: it is draining or drained.
func (r *Region) Drains() bool { return r.State == RegionDraining || r.State == RegionDrained }

// NoteDrained says that all records of a draining region are confirmed by those that
// should get them. Only the region itself knows. A region that drains no longer is
// left as it is.
func (w *Writer) NoteDrained(ctx context.Context, name rhumb.RegionName, data rhumb.UUID) (Region, error) {
	return w.editRegion(ctx, name, func(r *Region) error {
		if r.State != RegionDraining || r.DataUUID != data {
			return errUnchanged
		}
		r.State, r.StateAt = RegionDrained, joinTime()
		return nil
	})
}

// Uses lists the documents that name a region: namespaces, topics with a topology of
// their own, and tenants that allow it by name, in words.
type Uses struct {
	Namespaces []string `json:"namespaces"`
	Topics     []string `json:"topics,omitempty"`
	Tenants    []string `json:"tenants"`
}

// Any reports whether anything names the region.
func (u Uses) Any() bool { return len(u.Namespaces)+len(u.Topics)+len(u.Tenants) > 0 }

// Words names them for people, one by one.
func (u Uses) Words() []string {
	all := []string{}
	for _, n := range u.Namespaces {
		all = append(all, "namespace "+n)
	}
	for _, t := range u.Topics {
		all = append(all, "topic "+t)
	}
	for _, t := range u.Tenants {
		all = append(all, "tenant "+t)
	}
	return all
}

// String names them for people.
func (u Uses) String() string { return strings.Join(u.Words(), ", ") }

// RemoveRegion takes a region out of the mesh: it becomes a tombstone, and its number
// is never given again. No message is deleted by it, in any region (I7).
//
// It is refused while the region is not drained, and while a namespace or a tenant
// names it. force does it all the same: edges that name the region end, and what no
// other region has of it is lost to them.
func (w *Writer) RemoveRegion(ctx context.Context, name rhumb.RegionName, force bool) (Region, error) {
	as := *w
	as.leaving = name
	return as.editRegion(ctx, name, func(r *Region) error {
		uses, err := w.Uses(ctx, name)
		if err != nil {
			return err
		}
		never := r.DataUUID.IsZero() && r.JoinedAt.IsZero() // nothing ever ran under the number
		switch {
		case force:
		case uses.Any():
			return rhumb.Errorf(rhumb.KindInvalid, "configstore: region %s is named by %s: take it out there first, or --force", name, uses)
		case r.State != RegionDrained && !never:
			return rhumb.Errorf(rhumb.KindInvalid, "configstore: region %s is %s: drain it first with 'rhumb region drain %s --wait 10m'; "+
				"if it is gone for good, --force: what it had published last and no other region has is lost then", name, stateText(r.State), name)
		}
		r.Deleted, r.Forced = true, r.State != RegionDrained && !never
		r.State, r.StateAt = RegionActive, time.Time{}
		return nil
	})
}

func stateText(s RegionState) string {
	if s == "" {
		return string(RegionActive)
	}
	return string(s)
}

// DeleteRegion is RemoveRegion for a region that need not have been drained.
func (w *Writer) DeleteRegion(ctx context.Context, name rhumb.RegionName) error {
	if uses, err := w.Uses(ctx, name); err != nil || uses.Any() {
		if err == nil {
			err = inDocument(RegionKey(name), invalid("deleted", "%s: names the region: take it out there first", uses))
		}
		return err
	}
	_, err := w.RemoveRegion(ctx, name, true)
	return err
}

// Uses finds what names the region.
func (w *Writer) Uses(ctx context.Context, name rhumb.RegionName) (u Uses, err error) {
	ctx, cancel := w.patient(ctx)
	defer cancel()
	spaces, err := listAs[Namespace](ctx, w.store, NamespacesPrefix)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return u, err
	}
	for _, ns := range spaces {
		if !ns.Deleted && ns.names(name) {
			u.Namespaces = append(u.Namespaces, string(ns.Tenant)+"/"+string(ns.Name))
		}
	}
	topics, err := listAs[Topic](ctx, w.store, TopicsPrefix)
	if err != nil {
		return u, err
	}
	for _, t := range topics {
		if t.Topology.names(name) {
			u.Topics = append(u.Topics, pathOf(t.Topic))
		}
	}
	tenants, err := listAs[Tenant](ctx, w.store, TenantsPrefix)
	if err != nil {
		return u, err
	}
	for _, t := range tenants {
		if !t.Deleted && t.AllowedRegions != nil && t.Allows(name) {
			u.Tenants = append(u.Tenants, string(t.Name))
		}
	}
	return u, nil
}

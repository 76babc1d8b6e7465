package configstore

import (
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Former is a region that was removed and whose name came back under a new number.
type Former struct {
	Number    rhumb.RegionNumber `json:"number"`
	DataUUID  rhumb.UUID         `json:"data_uuid,omitzero"` // of its last data directory
	RemovedAt time.Time          `json:"removed_at"`
	// Forced: it was removed before it was drained, so that what it had published
	// last may be nowhere else.
	Forced bool `json:"forced,omitzero"`
}

// Owner says whose a region number is, or was. Numbers are never given twice.
type Owner struct {
	Name   rhumb.RegionName
	Number rhumb.RegionNumber
	// Gone: the region was removed from the mesh. Nothing will ever come from it
	// again, so records of its lives that no other region has are lost for good.
	Gone bool
	// RemovedAt and Forced are of a region that is gone; see [Former].
	RemovedAt time.Time
	Forced    bool
	// DataUUID is its data directory, the last one of a region that is gone.
	DataUUID rhumb.UUID
	// Version is that of the document which says so.
	Version uint64
}

// maxFormer bounds the list: a name that comes back every day fits for years.
const maxFormer = 4096

func (r *Region) validateFormer() error {
	if len(r.Former) > maxFormer {
		return invalid("former", "has %d entries, at most %d are allowed", len(r.Former), maxFormer)
	}
	for i, f := range r.Former {
		at := "former[" + strconv.Itoa(i) + "].number"
		switch err := f.Number.Validate(); {
		case err != nil:
			return invalid(at, "%v", err)
		case f.Number >= r.Number:
			return invalid(at, "%d is not below the region's number %d", f.Number, r.Number)
		}
	}
	return nil
}

// gone gives a tombstone as what it becomes when its name comes back.
func (r *Region) gone() Former {
	return Former{Number: r.Number, DataUUID: r.DataUUID, RemovedAt: r.UpdatedAt, Forced: r.Forced}
}

// owners gives all numbers that regions of the name have or had.
func (r *Region) owners() []Owner {
	all := make([]Owner, 0, len(r.Former)+1)
	add := func(f Former) {
		all = append(all, Owner{Name: r.Name, Number: f.Number, Gone: true, RemovedAt: f.RemovedAt, Forced: f.Forced, DataUUID: f.DataUUID, Version: r.Version})
	}
	for _, f := range r.Former {
		add(f)
	}
	if r.Deleted {
		add(r.gone())
		return all
	}
	return append(all, Owner{Name: r.Name, Number: r.Number, DataUUID: r.DataUUID, Version: r.Version})
}

// Owner gives whose a region number is, or was; false for one that was never given
// as far as this region knows.
func (v *View) Owner(n rhumb.RegionNumber) (Owner, bool) {
	o, ok := v.shown.Load().owners[n]
	return o, ok
}

// Owners gives the owners of all numbers, in no order.
func (v *View) Owners() []Owner {
	p := v.shown.Load()
	all := make([]Owner, 0, len(p.owners))
	for _, o := range p.owners {
		all = append(all, o)
	}
	return all
}

// Removed gives the tombstone of a name whose region was removed and that did not
// come back.
func (v *View) Removed(name rhumb.RegionName) (Region, bool) {
	r, ok := v.shown.Load().regions[name]
	return r, ok && r.Deleted
}

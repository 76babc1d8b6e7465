package broker

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Documents are the mesh's regions, tenants and namespaces, as a region sees and changes
// them.
type Documents struct {
	// View is the region's picture of the store.
	View *configstore.View
	// By names the region in the documents that it changes.
	By string
}

// Tenants gives all tenants by name.
func (d Documents) Tenants() []configstore.Tenant { return d.View.Tenants() }

// Namespaces gives all namespaces by tenant and name.
func (d Documents) Namespaces() []configstore.Namespace { return d.View.Namespaces() }

// Regions gives the registered regions by number.
func (d Documents) Regions() []configstore.Region { return d.View.Regions() }

// Removed gives the tombstone of a region that was removed and whose name did not
// come back.
func (d Documents) Removed(name rhumb.RegionName) (configstore.Region, bool) {
	return d.View.Removed(name)
}

// Highest is the highest region number that the mesh's documents name.
func (d Documents) Highest() rhumb.RegionNumber {
	highest := d.View.Mesh().LastNumber
	for _, o := range d.View.Owners() {
		highest = max(highest, o.Number)
	}
	return highest
}

// TopicDocs gives what topics have of their own, by name.
func (d Documents) TopicDocs() []configstore.Topic { return d.View.TopicDocs() }

// Writer changes documents. It refuses to while the store is not to be trusted.
func (d Documents) Writer() *configstore.Writer { return d.View.Writer(d.By) }

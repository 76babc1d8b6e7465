package broker

import "github.com/rhumbmq/rhumb/configstore"

// Documents are the mesh's tenants and namespaces, as a region sees and changes
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

// Writer changes documents. It refuses to while the store is not to be trusted.
func (d Documents) Writer() *configstore.Writer { return d.View.Writer(d.By) }

package api

import (
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TenantList is every tenant of the mesh.
type TenantList struct {
	Tenants []Tenant `json:"tenants"`
}

// Tenant is a tenant's name and its document. The document is what a PUT takes;
// its version then says which one it is to replace.
type Tenant struct {
	Name rhumb.Tenant `json:"tenant"`
	configstore.Tenant
}

// NamespaceList is every namespace of the mesh that has a document.
type NamespaceList struct {
	Namespaces []Namespace `json:"namespaces"`
}

// Namespace is a namespace's full name and its document, as [Tenant] is.
type Namespace struct {
	Space rhumb.Space `json:"namespace"`
	configstore.Namespace
}

package broker

import (
	"context"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Accounts are the users of the mesh, as the configuration store has them.
type Accounts struct {
	// View is the region's picture of the store.
	View *configstore.View
	// By names the region in the documents that it changes.
	By string
}

// User gives a user as it is now.
func (a Accounts) User(name rhumb.UserName) (configstore.User, bool) { return a.View.User(name) }

// Users gives all users by name.
func (a Accounts) Users() []configstore.User { return a.View.Users() }

// Secret is the mesh's, and its id in a mesh that was made without one.
func (a Accounts) Secret() []byte {
	m := a.View.Mesh()
	if len(m.Secret) == 0 {
		return m.UUID[:]
	}
	return m.Secret
}

// PutUser creates or changes a user.
func (a Accounts) PutUser(ctx context.Context, name rhumb.UserName, edit func(*configstore.User) error) (configstore.User, error) {
	return a.View.Writer(a.By).PutUser(ctx, name, edit)
}

// DeleteUser deletes a user.
func (a Accounts) DeleteUser(ctx context.Context, name rhumb.UserName) error {
	return a.View.Writer(a.By).DeleteUser(ctx, name)
}

// Subscribe calls fn after each change of the store's documents. fn does not
// block.
func (a Accounts) Subscribe(fn func()) (cancel func()) { return a.View.Subscribe(fn) }

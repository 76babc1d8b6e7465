package sim

import (
	"context"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// reached is the mesh's configuration store as one host reaches it, or does not.
type reached struct {
	configstore.Store
	apart *atomic.Bool
}

var errApart = rhumb.Errorf(rhumb.KindUnavailable, "sim: the store is not reached from here")

// Get fails while the host is apart, as List and Put do.
func (r reached) Get(ctx context.Context, key string) (configstore.Document, error) {
	if r.apart.Load() {
		return configstore.Document{}, errApart
	}
	return r.Store.Get(ctx, key)
}

// List: see Get.
func (r reached) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	if r.apart.Load() {
		return nil, errApart
	}
	return r.Store.List(ctx, prefix)
}

// Put: see Get.
func (r reached) Put(ctx context.Context, d configstore.Document) error {
	if r.apart.Load() {
		return errApart
	}
	return r.Store.Put(ctx, d)
}

package server

import (
	"fmt"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A topic that the mesh deleted while a region was down is gone there before anybody
// can write to it, whatever of the region's log must be applied first.
func TestDeletedWhileDownIsGoneBeforeReady(t *testing.T) {
	cfg := configure(t)
	topic := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: "orders"}
	for i := range 4 {
		f := start(t, cfg)
		c := f.client(f.kafka())
		for n := range 20 { // a tail of topics' records, too
			f.produce(c, string(topic.Name), fmt.Sprint(n))
			f.produce(c, fmt.Sprintf("other-%d-%d", i, n), "x")
		}
		f.server.Kill()
		deleteInStore(t, cfg.ConfigStore.Embedded.Path, topic)

		f = start(t, cfg)
		if info, ok := f.server.Region().Topic(topic); ok {
			t.Fatalf("round %d: the region is ready with a topic that the mesh has deleted: %+v", i, info)
		}
		f.stop()
		if err := f.end(); err != nil {
			t.Fatal(err)
		}
	}
}

func deleteInStore(t *testing.T, dir string, topic rhumb.Topic) {
	t.Helper()
	store, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := configstore.NewWriter(store, "test").CountDeletion(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
}

package embedded_test

import (
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/configstoretest"
	"github.com/rhumbmq/rhumb/configstore/embedded"
)

func TestMemoryContract(t *testing.T) {
	configstoretest.Run(t, func(*testing.T, bool) configstoretest.Backend {
		m := embedded.NewMemory()
		return configstoretest.Backend{
			Open:      func(*testing.T) configstore.Store { return m },
			SetDown:   m.SetDown,
			SetSilent: m.SetSilent,
			Backup: func() func() {
				docs := m.Snapshot()
				return func() { m.Rollback(docs) }
			},
		}
	})
}

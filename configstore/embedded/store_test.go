package embedded_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/configstoretest"
	"github.com/rhumbmq/rhumb/configstore/embedded"
)

func open(t *testing.T, dir string) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{Dir: dir, PollEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestDirectoryContract(t *testing.T) {
	configstoretest.Run(t, func(t *testing.T, _ bool) configstoretest.Backend {
		dir := filepath.Join(t.TempDir(), "store")
		docs := filepath.Join(dir, "rhumb")
		return configstoretest.Backend{
			Open: func(t *testing.T) configstore.Store { return open(t, dir) },
			SetDown: func(down bool) { // as if the disk were gone
				from, to := dir, dir+".gone"
				if !down {
					from, to = to, from
				}
				if err := os.Rename(from, to); err != nil {
					t.Error(err)
				}
			},
			Backup: func() func() {
				copied := t.TempDir()
				if _, err := os.Stat(docs); err == nil {
					if err := os.CopyFS(copied, os.DirFS(docs)); err != nil {
						t.Error(err)
					}
				}
				return func() {
					// A rename, so that no reader sees half of the copy.
					fresh := docs + ".restored"
					if err := os.CopyFS(fresh, os.DirFS(copied)); err != nil {
						t.Error(err)
					}
					if err := os.Rename(docs, t.TempDir()+"/old"); err != nil {
						t.Error(err)
					}
					if err := os.Rename(fresh, docs); err != nil {
						t.Error(err)
					}
				}
			},
		}
	})
}

package server

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
)

// A copy of a running region's data directory is not started beside it; when the
// first process has ended, it is.
func TestCopyIsNotStartedBesideTheOriginal(t *testing.T) {
	f := start(t, configure(t))
	cp := f.cfg
	cp.DataDir = t.TempDir()
	cp.Listeners = slices.Clone(cp.Listeners)
	if err := os.CopyFS(cp.DataDir, os.DirFS(f.cfg.DataDir)); err != nil {
		t.Fatal(err)
	}
	second := launch(t, cp)
	if err := second.end(); err == nil || !strings.Contains(err.Error(), "region us runs already") {
		t.Fatalf("the copy's end: %v", err)
	}
	if doc, ok := f.server.room.view.Region("us"); !ok || doc.Addresses[configstore.ProtocolAdmin][0] != f.admin() {
		t.Errorf("the document names %v", doc.Addresses)
	}
	f.server.Kill()
	start(t, cp)
}

// A region whose addresses were overwritten says so and writes them again.
func TestOverwrittenAddressesAreToldAndWrittenAgain(t *testing.T) {
	f := launchBy(t, configure(t), func(s *Server, ctx context.Context) error {
		s.rewrite = 500 * time.Millisecond
		return s.Run(ctx)
	})
	<-f.server.Ready()
	other := f.server.Self()
	other.Addresses = map[string][]string{configstore.ProtocolAdmin: {"127.0.0.1:1"}}
	until(t, "the region's health tells", func() bool { // a slow look may find that they are written again
		if _, err := f.server.room.view.Writer("a copy").RegisterRegion(f.ctx(), other, 0); err != nil {
			t.Fatal(err)
		}
		code, text := get("http://"+f.admin()+"/admin/v1/region", "")
		return code == 200 && strings.Contains(text, "overwritten")
	})
	until(t, "the addresses are written again", func() bool {
		doc, _ := f.server.room.view.Region("us")
		return slices.Equal(doc.Addresses[configstore.ProtocolAdmin], f.server.Self().Addresses[configstore.ProtocolAdmin])
	})
	until(t, "the log tells", func() bool { return strings.Contains(f.log.String(), "names other addresses than this process") })
}

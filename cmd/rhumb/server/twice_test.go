package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	copyRunning(t, f.cfg.DataDir, cp.DataDir)
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

// copyRunning copies a directory that is in use: as it is when nothing in it changes
// meanwhile, as with a snapshot of the file system.
func copyRunning(t *testing.T, from, to string) {
	t.Helper()
	until(t, "the directory is copied", func() bool {
		before, err := contents(from)
		if err == nil {
			err = os.RemoveAll(to)
		}
		if err == nil {
			err = os.CopyFS(to, os.DirFS(from))
		}
		after, err2 := contents(from)
		if err = errors.Join(err, err2); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil && before == after
	})
}

// contents tells the files of a directory with their sizes and times.
func contents(dir string) (string, error) {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintln(&all, path, info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	return all.String(), err
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

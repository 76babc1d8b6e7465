package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// lockRetry is how often a put tries again for a lock that another process
// holds. A put holds it for two flushes, and others of its handle after it.
const lockRetry = 2 * time.Millisecond

// replace is the put itself, in the order that doc.go explains.
func (s *Store) replace(d configstore.Document) error {
	path := s.path(d.Key)
	dir := filepath.Dir(path)
	if err := makeDirs(s.dir, dir); err != nil {
		return err
	}
	removeTemps(dir)
	raw, err := encodeFile(d)
	if err != nil {
		return err
	}
	if err := s.step("write"); err != nil {
		return err
	}
	tmp, err := writeTemp(path, raw)
	if err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"mark", s.mark},
		{"rename", func() error { return os.Rename(tmp, path) }},
		{"sync directory", func() error { return syncDir(dir) }},
	}
	for _, st := range steps {
		if err := s.step(st.name); err != nil {
			return err
		}
		if err := st.do(); err != nil {
			return err
		}
	}
	return nil
}

// mark writes a new token to CHANGES. It needs no flush: after a power loss no
// watch is left that could miss it.
func (s *Store) mark() error {
	path := filepath.Join(s.dir, changesName)
	tmp := path + tmpMark + "lock-holder" // one writer at a time
	if err := os.WriteFile(tmp, []byte(rand.Text()), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// marked reads the token. One that cannot be read is empty, and differs again as
// soon as it can be.
func (s *Store) marked() string {
	raw, err := os.ReadFile(filepath.Join(s.dir, changesName))
	if err != nil {
		return ""
	}
	return string(raw)
}

// flock takes the lock of the directory, shared or exclusive, for the caller.
// Each call has a file of its own, so it works between goroutines too. The lock
// goes with the file, at the latest when the process ends.
func (s *Store) flock(ctx context.Context, how int) (io.Closer, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, unavailable("lock", err)
	}
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR):
			f.Close()
			return nil, unavailable("lock", err)
		}
		retry := time.NewTimer(lockRetry)
		select {
		case <-ctx.Done():
			retry.Stop()
			f.Close()
			return nil, rhumb.Errorf(rhumb.KindUnavailable, "configstore: embedded: %s is locked: %w", s.dir, context.Cause(ctx))
		case <-s.closed:
			retry.Stop()
			f.Close()
			return nil, s.begin(ctx)
		case <-retry.C:
		}
	}
}

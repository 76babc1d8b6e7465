package embedded

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Config of a [Store].
type Config struct {
	// Dir is the directory of documents. It is made if it is absent, unless Existing. Every
	// region of one host that names the same directory shares a mesh.
	Dir string
	// Existing makes Open fail with kind not found, and make nothing, where no mesh
	// is in the directory: for commands whose user may have misspelled it.
	Existing bool
	// PollEvery is how often a watch looks for changes by other handles and
	// processes. Zero: 250 ms. A look is one small file read.
	PollEvery time.Duration
}

// Store is a [configstore.Store] in a directory.
type Store struct {
	dir  string
	poll time.Duration
	step func(name string) error // called before each step of a put; tests cut there

	closed chan struct{}
	files  known // of the last list
	puts   queue

	mu      sync.Mutex
	changed chan struct{} // closed and made anew at each put of this handle
}

// Open opens the store of a directory. Damage in a document is not looked for
// here but told by the call that meets it.
func Open(cfg Config) (*Store, error) {
	if cfg.Dir == "" {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: embedded: no directory is given")
	}
	if rhumb.IsURL(cfg.Dir) {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: embedded: %s is no directory", cfg.Dir)
	}
	if cfg.PollEvery <= 0 {
		cfg.PollEvery = 250 * time.Millisecond
	}
	s := &Store{
		dir: cfg.Dir, poll: cfg.PollEvery, step: func(string) error { return nil },
		changed: make(chan struct{}), closed: make(chan struct{}),
		puts: queue{turn: make(chan struct{}, 1)},
	}
	if cfg.Existing {
		_, err := os.Stat(s.path(configstore.MeshKey))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, unavailable("open", err)
		}
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindNotFound, "configstore: embedded: there is no configuration store in %s; name the directory that the regions' config_store.embedded.path names", cfg.Dir)
		}
		return s, nil
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, unavailable("open", err)
	}
	return s, nil
}

func unavailable(op string, err error) error {
	return rhumb.Errorf(rhumb.KindUnavailable, "configstore: embedded: %s: %w", op, err)
}

func (s *Store) begin(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closed:
		return rhumb.Errorf(rhumb.KindUnavailable, "%w", configstore.ErrClosed)
	default:
		return nil
	}
}

// Get implements [configstore.Store].
func (s *Store) Get(ctx context.Context, key string) (configstore.Document, error) {
	if err := s.begin(ctx); err != nil {
		return configstore.Document{}, err
	}
	if err := configstore.CheckKey(key); err != nil {
		return configstore.Document{}, err
	}
	return s.get(key)
}

func (s *Store) get(key string) (configstore.Document, error) {
	d, err := readFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return d, configstore.NotFound(key)
	}
	if err == nil && d.Key != key {
		return d, rhumb.Errorf(rhumb.KindCorrupt, "configstore: embedded: file %s holds %s", s.path(key), d.Key)
	}
	return d, err
}

// List implements [configstore.Store].
func (s *Store) List(ctx context.Context, prefix string) ([]configstore.Document, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	// Without the lock a rename during the walk could hide a document: some file
	// systems list a directory as it changes.
	lock, err := s.flock(ctx, syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	var out []configstore.Document
	files := s.files.next()
	err = filepath.WalkDir(filepath.Join(s.dir, filepath.FromSlash(configstore.Prefix)), func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // no document yet, or a .tmp- file that was just renamed
		case err != nil:
			return unavailable("list", err)
		case e.IsDir() || strings.Contains(e.Name(), tmpMark):
			return nil
		}
		d, err := files.read(path, e)
		if err != nil {
			return err
		}
		if want := s.path(d.Key); want != path {
			return rhumb.Errorf(rhumb.KindCorrupt, "configstore: embedded: file %s holds %s, whose file is %s", path, d.Key, want)
		}
		if strings.HasPrefix(d.Key, prefix) {
			out = append(out, d)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.files.keep(files)
	slices.SortFunc(out, func(a, b configstore.Document) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// Close implements [configstore.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil
	default:
	}
	close(s.closed)
	return nil
}

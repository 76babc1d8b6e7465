package configstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ViewConfig is what a View is made of.
type ViewConfig struct {
	// Store is the store that the View follows. The caller closes it.
	Store Store
	// Keeper keeps the last good copy, in the region's data directory.
	Keeper Keeper
	// Mesh is the UUID of the mesh that the data directory belongs to. Zero: not
	// known yet, the store's is taken.
	Mesh rhumb.UUID
	// CreateMesh lets a first start make the mesh in a store that has none.
	CreateMesh bool
	// By names the region in the documents that OpenView itself writes.
	By string
	// RereadEvery is how often the store is read whatever its watch says. Zero: 5 s.
	RereadEvery time.Duration
	// CallTimeout bounds one call of the store. Zero: 5 s.
	CallTimeout time.Duration
	// Logger for changes of state. Nil: none.
	Logger *slog.Logger
}

// View is one region's picture of the store. Its accessors never block and may
// be called concurrently; what they give is not to be changed.
type View struct {
	cfg ViewConfig // fixed by OpenView
	log *slog.Logger

	shown atomic.Pointer[picture] // never nil after OpenView

	// reading is a semaphore of one: its holder reads the store and owns what
	// follows. A channel, so that waiting can be given up and works under virtual
	// time.
	reading chan struct{}
	seen    map[string]Document // the highest version of each document
	keepAt  time.Time           // before it the last good copy is not saved again
	digest  digest              // of seen
	changes uint64              // sum of the versions of seen
	refused map[string]refusal  // seen, but not in force
	unkept  bool                // seen is newer than what the Keeper has

	heard chan struct{} // capacity 1: a peer said something new

	mu      sync.Mutex // what follows
	status  Status
	telling Told     // to peers
	asked   *refresh // that has not begun, nil if none waits
	subs    map[*subscriber]struct{}
	words   map[rhumb.RegionName]word // of peers, said last
}

// refusal is a document that this version of Rhumb does not take.
type refusal struct {
	inForce *Document // the version before it that is in force; nil: none
	reason  string
}

type subscriber struct{ fn func() }

// OpenView starts from the last good copy and the store. With a last good copy
// the store may be down. Without one the store is needed ([ErrFirst]), and must
// hold a mesh ([ErrNoMesh]) unless CreateMesh is set. A store of another mesh is
// refused by UUID ([ErrOtherMesh]).
func OpenView(ctx context.Context, cfg ViewConfig) (*View, error) {
	cfg.RereadEvery = cmp.Or(max(cfg.RereadEvery, 0), 5*time.Second)
	cfg.CallTimeout = cmp.Or(max(cfg.CallTimeout, 0), 5*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	v := &View{
		cfg: cfg, log: cfg.Logger.With("component", "configstore"), reading: make(chan struct{}, 1),
		seen: map[string]Document{}, refused: map[string]refusal{}, subs: map[*subscriber]struct{}{},
		heard: make(chan struct{}, 1), words: map[rhumb.RegionName]word{},
	}
	v.shown.Store(newPicture())
	v.status = Status{State: StateStoreDown, Since: time.Now()}
	if err := v.load(); err != nil {
		return nil, err
	}
	first := len(v.seen) == 0
	err := v.Refresh(ctx)
	if first && errors.Is(err, ErrNoMesh) && cfg.CreateMesh {
		if _, err = NewWriter(cfg.Store, cfg.By).EnsureMesh(ctx); err == nil {
			err = v.Refresh(ctx)
		}
	}
	switch {
	case errors.Is(err, ErrOtherMesh), first && errors.Is(err, ErrNoMesh):
		return nil, err
	case first && err != nil:
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "%w, later ones do not: %w", ErrFirst, err)
	}
	return v, nil
}

// load takes the last good copy.
func (v *View) load() error {
	raw, err := v.cfg.Keeper.Load()
	if err != nil {
		return rhumb.Errorf(rhumb.KindUnavailable, "configstore: read last good copy: %w", err)
	}
	if raw == nil {
		return nil
	}
	seen, inForce, err := decodeKept(raw)
	if err != nil {
		return damagedCopy(err)
	}
	next := newPicture()
	for key, d := range seen {
		v.note(d)
		if err := next.put(d); err != nil {
			r := refusal{reason: err.Error()}
			if old, ok := inForce[key]; ok && next.put(old) == nil {
				r.inForce = &old
			}
			v.refused[key] = r
		}
	}
	if next.mesh.UUID.IsZero() {
		return damagedCopy(errors.New("it holds no mesh"))
	}
	if !v.cfg.Mesh.IsZero() && v.cfg.Mesh != next.mesh.UUID {
		return otherMesh("last good copy", next.mesh.UUID, v.cfg.Mesh)
	}
	next.link()
	v.shown.Store(next)
	return nil
}

func otherMesh(what string, found, want rhumb.UUID) error {
	return rhumb.Errorf(rhumb.KindForbidden, "%w: %s has mesh %s, this region belongs to mesh %s", ErrOtherMesh, what, found, want)
}

// Writer gives a Writer that refuses to write while the store is not to be
// trusted, and after whose puts this View is up to date.
func (v *View) Writer(by string) *Writer {
	w := NewWriter(v.cfg.Store, by)
	w.guard = v.guard
	w.after = func(ctx context.Context) { _ = v.Refresh(ctx) } // the put is done; the status has the error
	return w
}

// guard looks at the store before a write. While it is down the write itself
// says so. A region that was removed, as a peer proves, writes nothing.
//
// It lets through what removes a region, leaving, where nothing but the words of peers is
// against it and leaving's is one of them: who says what is wrong could not be removed
// otherwise. Several that do so are removed one by one.
func (v *View) guard(ctx context.Context, leaving rhumb.RegionName) error {
	if r, ok := v.Removal(); ok && leaving == "" {
		return toldRemoved(r)
	}
	err := v.Refresh(ctx)
	if leaving != "" && onlyTold(err) && v.blames(ctx, leaving) {
		return nil
	}
	if r, ok := v.Removal(); ok {
		return toldRemoved(r)
	}
	if errors.Is(err, ErrWentBack) || errors.Is(err, ErrOtherMesh) {
		return err
	}
	return nil
}

package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// stopGrace bounds how long a clean stop of the whole mesh takes.
const stopGrace = 20 * time.Second

// Options say what mesh to run.
type Options struct {
	// Regions by name; the i-th listens on the i-th set of ports.
	Regions []rhumb.RegionName
	// PortOffset is added to every port.
	PortOffset int
	// Data is the directory of everything; empty: a temporary one, which is
	// removed after a clean stop.
	Data string
	// Consul keeps the mesh's documents; nil: a directory in Data does. It needs Data:
	// the documents name the data directories for ever.
	Consul *consul.Config
	// Processes runs each region as a process of its own, of this binary.
	Processes bool
	// Control is the path of the socket for commands.
	Control string
	// Out gets what a person should see: where things are, what stopped.
	Out io.Writer
	// Logger of what runs in this process.
	Logger *slog.Logger
}

// mesh is a running mesh.
type mesh struct {
	opts    Options
	dir     string
	regions []*region
	links   *links
	wait    sync.WaitGroup

	mu  sync.Mutex // one command at a time
	out sync.Mutex // one line at a time
}

// Run runs a mesh until ctx ends, then stops it cleanly. It returns early, with
// nothing left running, if the mesh cannot start whole.
func Run(ctx context.Context, opts Options) (err error) {
	m := &mesh{opts: opts}
	if err := m.validate(); err != nil {
		return err
	}
	for i, name := range opts.Regions {
		m.regions = append(m.regions, &region{name: name, at: addressesOf(i, opts.PortOffset)})
	}
	// First, since "another mesh is running" says more than a list of busy ports.
	control, err := listenControl(opts.Control)
	if err != nil {
		return err
	}
	defer control.Close()
	if err := checkFree(m.regions); err != nil {
		return err
	}
	remove, err := m.makeDir()
	if err != nil {
		return err
	}
	defer func() { remove(err) }()
	return m.run(ctx, func(ctx context.Context) error { return serveControl(ctx, control, m.do) })
}

func (m *mesh) validate() error {
	if n := len(m.opts.Regions); n < 1 || n > MaxRegions {
		return rhumb.Errorf(rhumb.KindInvalid, "a development mesh has 1 to %d regions, not %d", MaxRegions, n)
	}
	if o := m.opts.PortOffset; o < 0 || o > MaxPortOffset {
		return rhumb.Errorf(rhumb.KindInvalid, "a port offset is 0 to %d, not %d", MaxPortOffset, o)
	}
	seen := map[rhumb.RegionName]bool{}
	for _, name := range m.opts.Regions {
		if err := name.Validate(); err != nil {
			return err
		}
		if seen[name] {
			return rhumb.Errorf(rhumb.KindInvalid, "region %s is named twice", name)
		}
		seen[name] = true
	}
	return nil
}

// makeDir makes the data directory. What it returns removes a temporary one if
// the mesh stopped cleanly; after an error it is kept, to be looked at.
func (m *mesh) makeDir() (remove func(error), err error) {
	if m.opts.Data != "" {
		if m.dir, err = filepath.Abs(m.opts.Data); err != nil {
			return nil, err
		}
		return func(error) {}, claim(m.dir, m.opts.Consul != nil)
	}
	if m.dir, err = os.MkdirTemp("", "rhumb-dev-"); err != nil {
		return nil, err
	}
	return func(err error) {
		if err != nil {
			m.say("data is kept in %s", m.dir)
			return
		}
		os.RemoveAll(m.dir)
	}, nil
}

// claim makes a directory for a mesh, or takes one that holds a mesh already. A
// directory of something else is left alone, and so is one whose documents lie
// elsewhere: in Consul, or in the directory itself.
func claim(dir string, inConsul bool) error {
	names, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	has := func(name string) bool {
		return slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch store := has(storeName); {
	case len(names) == 0, store && !inConsul, inConsul && !store && has(regionsName):
	case store:
		return rhumb.Errorf(rhumb.KindInvalid, "the mesh in %s has its documents there, not in Consul: start it without --consul, or name another directory with --data", dir)
	case has(regionsName):
		return rhumb.Errorf(rhumb.KindInvalid, "the mesh in %s has its documents in Consul: say where with --consul, or name another directory with --data", dir)
	default:
		return rhumb.Errorf(rhumb.KindInvalid, "%s is not empty and holds no development mesh: name another directory with --data", dir)
	}
	return os.MkdirAll(dir, 0o755)
}

func (m *mesh) run(ctx context.Context, control func(context.Context) error) error {
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer m.wait.Wait()
	defer cancel()
	if err := m.prepare(inner); err != nil {
		return err
	}
	defer m.links.close()
	m.links.run(inner, func(f func()) { m.wait.Go(f) })
	if err := m.startAll(ctx); err != nil {
		if ctx.Err() != nil { // told to stop before it was up: what is up stops in order
			return m.stopAll()
		}
		m.killAll()
		return err
	}
	m.wait.Go(func() {
		if err := control(inner); err != nil {
			m.say("the control socket failed: %v", err)
		}
	})
	m.announce()
	<-ctx.Done()
	m.say("stopping")
	return m.stopAll()
}

func (m *mesh) startAll(ctx context.Context) error {
	errs := make([]error, len(m.regions))
	var wait sync.WaitGroup
	for i, r := range m.regions {
		wait.Go(func() {
			if err := m.start(ctx, r); err != nil {
				errs[i] = fmt.Errorf("region %s: %w", r.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (m *mesh) stopAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	errs := make([]error, len(m.regions))
	var wait sync.WaitGroup
	for i, r := range m.regions {
		wait.Go(func() {
			if err := r.stop(ctx); err != nil {
				errs[i] = fmt.Errorf("region %s did not stop cleanly: %w", r.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (m *mesh) killAll() {
	for _, r := range m.regions {
		r.kill()
	}
}

// say prints a line for the person at the terminal.
func (m *mesh) say(format string, args ...any) {
	m.out.Lock()
	defer m.out.Unlock()
	fmt.Fprintf(m.opts.Out, format+"\n", args...)
}

func (m *mesh) announce() {
	m.out.Lock()
	defer m.out.Unlock()
	kind := "data"
	if m.opts.Data == "" {
		kind = "temporary data, removed at a clean stop:"
	}
	fmt.Fprintf(m.opts.Out, "%s %s\n", kind, m.dir)
	w := tabwriter.NewWriter(m.opts.Out, 0, 0, 2, ' ', 0)
	for _, r := range m.regions {
		fmt.Fprintf(w, "region %s\tkafka %s\tadmin http://%s\tgeo %s\tpid %d\n", r.name, r.at.kafka, r.at.admin, r.at.geo, r.pid())
	}
	w.Flush()
	fmt.Fprintln(m.opts.Out, "ready; Ctrl-C stops the mesh")
}

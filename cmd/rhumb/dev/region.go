package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// startLimit bounds how long a region may take to be ready: a large log takes a
// while to recover, a region that hangs should be named.
const startLimit = 60 * time.Second

// instance is one life of a region: from a start to a stop, a kill or a failure.
type instance interface {
	// stop asks for a clean stop and waits for it.
	stop(context.Context) error
	// kill ends it at once, as a power failure of its process would.
	kill()
	// ended is closed when it has ended, for whatever reason.
	ended() <-chan struct{}
	// err says why it ended; nil after a stop or a kill.
	err() error
	pid() int
}

// region is one region of the mesh, running or not.
type region struct {
	name   rhumb.RegionName
	at     addresses
	config string // path of its region.yaml

	mu  sync.Mutex
	now instance // nil: not running
}

func (r *region) running() instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *region) pid() int {
	if now := r.running(); now != nil {
		return now.pid()
	}
	return 0
}

// take forgets the instance and gives it, so that only one of stop, kill and
// the watcher of failures handles its end.
func (r *region) take() instance {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now
	r.now = nil
	return now
}

func (r *region) stop(ctx context.Context) error {
	if now := r.take(); now != nil {
		return now.stop(ctx)
	}
	return nil
}

func (r *region) kill() bool {
	now := r.take()
	if now != nil {
		now.kill()
	}
	return now != nil
}

// start starts a region that is not running and waits until it is ready.
func (m *mesh) start(ctx context.Context, r *region) error {
	if r.running() != nil {
		return rhumb.Errorf(rhumb.KindExists, "region %s is running already", r.name)
	}
	limited, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not ready after %s", startLimit))
	defer cancel()
	launch := startHere
	if m.opts.Processes {
		launch = startProcess
	}
	now, err := launch(limited, m, r)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.now = now
	r.mu.Unlock()
	m.wait.Go(func() { m.watch(r, now) })
	return nil
}

// watch tells when a region ends that nobody stopped or killed.
func (m *mesh) watch(r *region, now instance) {
	<-now.ended()
	r.mu.Lock()
	failed := r.now == now
	if failed {
		r.now = nil
	}
	r.mu.Unlock()
	if failed {
		m.say("region %s ended by itself: %v; `rhumb dev region start %s` starts it again", r.name, now.err(), r.name)
	}
}

func (m *mesh) region(name rhumb.RegionName) (*region, error) {
	for _, r := range m.regions {
		if r.name == name {
			return r, nil
		}
	}
	return nil, rhumb.Errorf(rhumb.KindNotFound, "no region %q; regions are %v", name, m.opts.Regions)
}

// do carries out a command of the control socket.
func (m *mesh) do(ctx context.Context, cmd Command) (*State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch cmd.Do {
	case "show":
	case "set":
		if err := m.links.change(cmd.Link, cmd.Settings); err != nil {
			return nil, err
		}
	case "kill", "start":
		r, err := m.region(cmd.Region)
		if err != nil {
			return nil, err
		}
		if cmd.Do == "start" {
			// The region outlives the command that starts it.
			if err := m.start(context.WithoutCancel(ctx), r); err != nil {
				return nil, fmt.Errorf("start region %s: %w", r.name, err)
			}
			m.say("region %s started", r.name)
		} else if !r.kill() {
			return nil, rhumb.Errorf(rhumb.KindNotFound, "region %s is not running", r.name)
		} else {
			m.say("region %s killed", r.name)
		}
	default:
		return nil, errors.New("a command is kill, start, set or show")
	}
	return m.state(), nil
}

func (m *mesh) state() *State {
	s := &State{Data: m.dir, Links: m.links.describe()}
	for _, r := range m.regions {
		s.Regions = append(s.Regions, RegionState{
			Name: r.name, Running: r.running() != nil, PID: r.pid(),
			Kafka: r.at.kafka, Admin: r.at.admin, Geo: r.at.geo,
		})
	}
	return s
}

func (m *mesh) regionDir(name rhumb.RegionName) string {
	return filepath.Join(m.dir, regionsName, string(name))
}

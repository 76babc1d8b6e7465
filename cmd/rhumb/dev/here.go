package dev

import (
	"context"
	"errors"
	"os"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/cmd/rhumb/server"
)

// here is a region in this process.
type here struct {
	server *server.Server
	cancel context.CancelFunc
	done   chan struct{}
	failed error // read after done
}

// startHere runs the region in this process and waits until it is ready.
func startHere(ctx context.Context, m *mesh, r *region) (instance, error) {
	cfg, err := config.Load(r.config)
	if err != nil {
		return nil, err
	}
	s := server.New(cfg, server.Options{Logger: m.opts.Logger})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &here{server: s, cancel: cancel, done: make(chan struct{})}
	m.wait.Go(func() {
		h.failed = s.Run(running)
		close(h.done)
	})
	select {
	case <-s.Ready():
		return h, nil
	case <-h.done:
		return nil, h.failed
	case <-ctx.Done():
		cause := context.Cause(ctx)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return nil, errors.Join(cause, h.stop(grace))
	}
}

func (h *here) stop(ctx context.Context) error {
	h.cancel()
	select {
	case <-h.done:
		return h.failed
	case <-ctx.Done():
		h.kill()
		return context.Cause(ctx)
	}
}

func (h *here) kill() {
	h.server.Kill()
	<-h.done
}

func (h *here) ended() <-chan struct{} { return h.done }
func (h *here) err() error             { return h.failed }
func (h *here) pid() int               { return os.Getpid() }

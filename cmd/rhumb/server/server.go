package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/kafka"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/consul"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/replicator"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Options replace parts of the outside world. The zero value is the real one.
type Options struct {
	// Logger of the region, which adds its name. Default: discarded.
	Logger *slog.Logger
	// FS holds the data directory. Default: the operating system's.
	FS vfs.FS
	// Store is the configuration store. Default: what the configuration names.
	// Whoever hands one in closes it.
	Store configstore.Store
	// Keeper keeps the last good copy of the store. Default: a file in the data
	// directory.
	Keeper configstore.Keeper
	// ListenGeo opens the socket of links. Default: UDP.
	ListenGeo func(addr string) (net.PacketConn, error)
	// GeoTLS holds the region's certificate and the mesh's CA. Default: the
	// files that the geo listener names.
	GeoTLS *certs.Source
}

// Server is one region in this process. Use: New, Run; Kill from elsewhere.
type Server struct {
	cfg     config.Config
	opts    Options
	log     *slog.Logger
	parts   *parts
	boot    rhumb.UUID    // tells this process from another one of the region
	rewrite time.Duration // rewriteAfter, but in tests

	ready   chan struct{} // closed when the region serves
	killed  chan struct{} // closed by Kill
	killing sync.Once
	ended   chan struct{} // closed when Run has returned
	kafka   atomic.Pointer[kafka.Server]
	damages chan struct{} // capacity 1: a batch could not be read
	serving atomic.Bool   // between ready and the beginning of the stop
	in      inputs        // set by open
	room    rooms         // set by open, before ready is closed
}

// rooms are what the server wired together.
type rooms struct {
	store    *storage.Store
	view     *configstore.View
	kept     bool               // the data directory has a last good copy: the region has started before
	self     configstore.Region // as stored
	said     configstore.Region // as this process registered it
	region   *region.Region
	broker   *broker.Broker
	links    *replicator.Manager  // nil without a geo listener
	consul   *consul.Store        // nil: the configuration store is another one
	services *consul.Registration // nil: no services are registered
	closers  []func() error       // what no part closes, in the order of opening
}

// New builds a server; it opens and starts nothing.
func New(cfg config.Config, opts Options) *Server {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	killed := make(chan struct{})
	opts.Logger = slog.New(untilKilled{opts.Logger.Handler(), killed})
	if opts.FS == nil {
		opts.FS = vfs.OS()
	}
	if opts.ListenGeo == nil {
		opts.ListenGeo = func(addr string) (net.PacketConn, error) { return net.ListenPacket("udp", addr) }
	}
	return &Server{
		cfg: cfg, opts: opts, log: opts.Logger.With("region", cfg.Region.Name), parts: newParts(), boot: rhumb.NewUUID(), rewrite: rewriteAfter,
		damages: make(chan struct{}, 1),
		ready:   make(chan struct{}), killed: killed, ended: make(chan struct{}),
	}
}

// Ready is closed when the region leads its shards, listens and answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run opens the region, serves until ctx ends, and stops it cleanly within the
// configured grace. It returns nil after a clean stop or a Kill, else why the
// region could not start or go on.
func (s *Server) Run(ctx context.Context) error {
	defer close(s.ended)
	if err := s.open(ctx); err != nil {
		if ctx.Err() != nil || s.isKilled() {
			err = nil // told to stop before it was ready: an end like any other
		}
		s.parts.kill()
		return together(err, s.close())
	}
	err := s.serve(ctx)
	if s.isKilled() {
		for _, socket := range s.in.udp {
			socket.Close() // the dead do not say goodbye to their peers
		}
		s.room.store.Kill()
		s.parts.kill()
		s.close()
		return nil
	}
	s.serving.Store(false)
	grace, cancel := context.WithTimeout(context.Background(), s.cfg.ShutdownGrace.Std())
	defer cancel()
	return together(err, s.parts.stopAll(grace), s.close())
}

// serve waits until it is time to stop; an error says that it is too early.
func (s *Server) serve(ctx context.Context) error {
	s.serving.Store(true)
	s.log.Info("ready", "number", s.room.self.Number)
	close(s.ready)
	select {
	case <-ctx.Done():
		return nil
	case <-s.killed:
		return nil
	case err := <-s.parts.failed:
		return s.advise("", err)
	}
}

func (s *Server) waitReady(ctx context.Context) error {
	if err := s.wait(ctx, s.room.region.WaitReady); err != nil {
		return fmt.Errorf("wait for the region's shards: %w", err)
	}
	return nil
}

// wait runs a step of the start that may take long, unless it is time to stop, or a
// part that the step may need has failed.
func (s *Server) wait(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1) // one answer
	go func() { done <- step(ctx) }()
	select {
	case err := <-done:
		return err
	case <-s.killed:
		return errors.New("killed")
	case err := <-s.parts.failed:
		return err
	}
}

// Kill ends the region as kill -9 would: nothing is flushed, nobody is told.
// It waits until all goroutines have ended.
func (s *Server) Kill() {
	s.killing.Do(func() { close(s.killed) })
	<-s.ended
}

func (s *Server) isKilled() bool {
	select {
	case <-s.killed:
		return true
	default:
		return false
	}
}

// close closes what no part does, the last one first.
func (s *Server) close() error {
	var errs []error
	for i := len(s.room.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.room.closers[i]())
	}
	s.room.closers = nil
	return errors.Join(errs...)
}

func (s *Server) onClose(f func() error) { s.room.closers = append(s.room.closers, f) }

// Region gives the region's room. It may be used after Ready.
func (s *Server) Region() *region.Region { return s.room.region }

// Broker gives the broker of the region's clients. It may be used after Ready.
func (s *Server) Broker() *broker.Broker { return s.room.broker }

// Links gives the state of all links, nil if the region has none.
func (s *Server) Links() *replicator.Manager { return s.room.links }

// Problems gives what is not right with the region. It may be used after Ready.
func (s *Server) Problems() []admin.Problem { return s.health().Problems }

// Self gives the region's document as of its start.
func (s *Server) Self() configstore.Region { return s.room.self }

// nodeID is Kafka's id of a region's n-th node.
func nodeID(number rhumb.RegionNumber, n int32) int32 { return int32(number)*1000 + n }

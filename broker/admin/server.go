package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/version"
)

// Server is a node's admin API. Make it with [New].
type Server struct {
	cfg      Config
	log      *slog.Logger
	http     *http.Server
	routes   []route
	metrics  *metrics
	expander *codec.Expander
	slots    chan struct{}       // requests being answered, at most maxConcurrent
	digests  chan struct{}       // digest streams, at most maxDigests
	held     *semaphore.Weighted // of maxHeld bytes
	alone    chan struct{}       // the call that has a record or a batch above maxConsumeBytes in memory
	failed   failures            // wrong tokens by address

	// stopping ends when Close or Run stops the server, so that streams and long
	// polls end too; it belongs to no request.
	stopping context.Context
	stop     context.CancelFunc
}

// New builds a server; it listens to nothing yet.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Version == (version.Info{}) {
		cfg.Version = version.Get()
	}
	if cfg.MaxConnections <= 0 || cfg.MaxConnections > maxConnections {
		cfg.MaxConnections = maxConnections
	}
	if cfg.StopGrace == 0 {
		cfg.StopGrace = defaultStopGrace
	}
	s := &Server{
		cfg:      cfg,
		log:      cfg.Logger.With("component", "admin"),
		slots:    make(chan struct{}, maxConcurrent),
		digests:  make(chan struct{}, maxDigests),
		held:     semaphore.NewWeighted(maxHeld),
		alone:    make(chan struct{}, 1),
		expander: codec.NewExpander(recordLimits),
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.routes = s.table()
	s.metrics = newMetrics(s)
	s.http = &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      bodyTimeout + writeTimeout, // each request sets its own in time
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Listen binds addr (host:port) after [Config.CheckExposure].
func (s *Server) Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("admin: listen: %w", err)
	}
	if err := s.cfg.CheckExposure(l.Addr()); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Run serves on l, with TLS where configured, until ctx is done; then it stops
// accepting, ends streams and long polls, gives other requests StopGrace to
// finish, and returns nil. It closes l.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	l = newLimited(l, s.cfg.MaxConnections, maxConnectionsPerAddress)
	if s.cfg.TLS != nil {
		l = tls.NewListener(l, s.cfg.TLS)
	}
	served := make(chan error, 1) // one result
	go func() { served <- s.http.Serve(l) }()
	select {
	case err := <-served:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("admin: serve: %w", err)
	case <-ctx.Done():
	}
	s.stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopGrace)
	defer cancel()
	err := s.http.Shutdown(grace)
	if err != nil {
		s.http.Close() // what did not finish within its grace is cut
	}
	<-served
	return nil
}

// Close stops at once; Run returns. It may be called again.
func (s *Server) Close() error {
	s.stop()
	return s.http.Close()
}

// untilStop gives a context that also ends when the server stops.
func (s *Server) untilStop(r *http.Request, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	unhook := context.AfterFunc(s.stopping, cancel)
	return ctx, func() { unhook(); cancel() }
}

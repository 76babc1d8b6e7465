package sim

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/cmd/rhumb/server"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// dataDir is where each host's region keeps its data, on its own file system.
const dataDir = "/data"

// host is a machine that runs one region, or is switched off.
type host struct {
	name   rhumb.RegionName
	ip     net.IP
	certs  *certs.Source
	fs     *vfs.Mem
	keeper *configstore.MemoryKeeper
	backup *vfs.Mem    // what actBackup copied, nil if it never did
	apart  atomic.Bool // from the configuration store

	running *server.Server // nil: switched off
	socket  net.PacketConn
	cancel  context.CancelFunc
	ended   chan error // capacity 1: what Run returned
}

// boot starts the host's region and waits until it serves.
func (h *host) boot(w *world) error {
	s := server.New(h.config(), server.Options{
		Logger: w.logger(h.name), FS: h.fs, Store: reached{w.store, &h.apart}, Keeper: h.keeper, GeoTLS: h.certs,
		ListenGeo: func(string) (net.PacketConn, error) {
			h.socket = w.net.listen(h.ip)
			return h.socket, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		h.running, h.cancel, h.ended = s, cancel, ended
		return nil
	case err := <-ended:
		cancel()
		return fmt.Errorf("region %s does not start: %w", h.name, err)
	case <-time.After(time.Minute):
		s.Kill()
		cancel()
		return fmt.Errorf("region %s is not ready after a minute", h.name)
	}
}

func (h *host) config() config.Config {
	cfg := config.Defaults()
	cfg.Region.Name = h.name
	cfg.DataDir = dataDir
	cfg.Shards = 2
	if h.name == "r1" { // one region of them writes its log the other way
		cfg.LogWrites = config.LogWritesCached
	}
	cfg.Listeners = []config.Listener{{Name: "geo", Protocol: config.ProtocolGeo, Bind: net.JoinHostPort(h.ip.String(), "7650")}}
	cfg.Limits.LogFile = 1 << 20
	cfg.Limits.DiskReserve = 0
	cfg.Limits.TailCache = 256 << 10 // small, so that reads come from files, too
	cfg.Limits.StateMemtable, cfg.Limits.StateCache = 1<<20, 1<<20
	cfg.MinFree = config.MinFree{}
	cfg.ShutdownGrace = config.Duration(10 * time.Second)
	return cfg
}

// region gives the running region, nil if the host is switched off.
func (h *host) region() *region.Region {
	if h.running == nil {
		return nil
	}
	return h.running.Region()
}

// crash cuts the power. What was not synced meets its fate by seed.
func (h *host) crash(seed uint64) {
	if h.running == nil {
		return
	}
	after := h.fs.CrashClone(vfs.CrashOptions{Seed: seed})
	h.socket.Close()
	h.running.Kill()
	<-h.ended
	h.cancel()
	h.fs, h.running = after, nil
}

// stop shuts the region down in order.
func (h *host) stop() error {
	if h.running == nil {
		return nil
	}
	h.cancel()
	err := <-h.ended
	h.socket.Close()
	h.running = nil
	return err
}

// lineHandler writes log records into the run's event log.
type lineHandler struct {
	w     *world
	attrs []slog.Attr
}

func (l lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

func (l lineHandler) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	for _, a := range l.attrs {
		line += " " + a.String()
	}
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.w.note("%s", line)
	return nil
}

func (l lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lineHandler{l.w, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l lineHandler) WithGroup(string) slog.Handler { return l }

package replicator

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
	"github.com/rhumbmq/rhumb/replicator/strands"
)

// Config is what a [Manager] needs. All fields are required, but those that
// name a default.
type Config struct {
	// Self says who this region is; it travels in every hello.
	Self Identity

	// Boot tells this process from another one that says that it is the same
	// region. It travels in every hello. Default: random.
	Boot rhumb.UUID

	// Software is the version of this program, told to peers for people to see.
	Software string

	// Region stores and reads. Policy says who may send what to whom.
	Region Region
	Policy Policy

	// Documents is what peers tell each other of the mesh's documents. Default: nothing
	// is told, and what peers tell is not heard.
	Documents Documents

	// PacketConn is the socket on which links are dialled and accepted. The
	// manager reads it until Close and does not close it.
	PacketConn net.PacketConn

	// Resolve turns one geo address of a peer into a network address. It is
	// asked at each dial. Default [ResolveUDP].
	Resolve func(ctx context.Context, peer rhumb.RegionName, addr string) (net.Addr, error)

	// Certs are this region's certificate and whom it trusts. TLS is mutual: both
	// sides show a certificate of the mesh.
	Certs *certs.Source

	// Correction says of links who decides over their forward error correction; those
	// that are not named follow the measured loss.
	Correction map[rhumb.RegionName]fec.Mode

	// Logger takes what an operator would note. Default: discarded.
	Logger *slog.Logger

	// Limits bound memory, time and rate. Default: see there.
	Limits Limits
}

// Identity is a region as its peers see it.
type Identity struct {
	Mesh   rhumb.UUID
	Name   rhumb.RegionName
	Number rhumb.RegionNumber
	Data   rhumb.UUID // of the data directory
}

// Limits bound what links may use. A zero field takes its default.
type Limits struct {
	// SendBudget is how many bytes, of all links together, may be read from the
	// log and not confirmed yet. Default 128 MiB.
	SendBudget int64
	// ReceiveBudget is how many bytes, of all links together, may have arrived
	// and not be stored yet. Default 128 MiB.
	ReceiveBudget int64
	// Window is how many bytes one session may have sent and not confirmed.
	// Default 8 MiB: 40 MB/s for one partition at 200 ms.
	Window int64
	// Read is how many bytes a session reads from the log at once. Default 1 MiB.
	Read int
	// Lanes is how many streams a link sends new data on at most, and as many more
	// debts, and backlog. Default 8, at most 8.
	Lanes int
	// Connections is how many QUIC connections a link may have, 1 to 64. More than one
	// are used while they bring more. The lower number of the two sides counts.
	// Default 64.
	Connections int
	// Opening is how many sessions of a link may be finding their start at the
	// same time. Default 256.
	Opening int64
	// Rate limits what a link sends, in bytes per second. Default 0: no limit.
	Rate int64
	// Idle is after how long without anything to send a session closes.
	// Default 10 s.
	Idle time.Duration
	// Watchdog is after how long a session that has something to do and makes
	// no progress is rebuilt. It must be above the worst round trip. Default 15 s.
	Watchdog time.Duration
}

const (
	maxLanes        = 24 // of all classes together
	maxConnections  = strands.Max
	defaultSend     = 128 << 20
	defaultReceive  = 128 << 20
	defaultWindow   = 8 << 20
	defaultRead     = 1 << 20
	defaultLanes    = 8
	defaultOpening  = 256
	defaultIdle     = 10 * time.Second
	defaultWatchdog = 15 * time.Second
)

// orDefault replaces a zero limit.
func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// validate checks the configuration and fills in defaults.
func (c *Config) validate() error {
	l := &c.Limits
	orDefault(&l.SendBudget, defaultSend)
	orDefault(&l.ReceiveBudget, defaultReceive)
	orDefault(&l.Window, defaultWindow)
	orDefault(&l.Read, defaultRead)
	orDefault(&l.Lanes, defaultLanes)
	orDefault(&l.Connections, maxConnections)
	orDefault(&l.Opening, defaultOpening)
	orDefault(&l.Idle, defaultIdle)
	orDefault(&l.Watchdog, defaultWatchdog)
	if c.Boot.IsZero() {
		c.Boot = rhumb.NewUUID()
	}
	if c.Resolve == nil {
		c.Resolve = ResolveUDP
	}
	if c.Documents == nil {
		c.Documents = noDocuments{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case l.SendBudget < 0 || l.ReceiveBudget < 0 || l.Window < 0 || l.Read < 0 || l.Rate < 0 || l.Idle < 0 || l.Opening < 0:
		return errors.New("replicator: limits must not be negative")
	case l.Lanes < 1 || l.Lanes > maxLanes/int(classes):
		return errors.New("replicator: lanes must be 1 to 8")
	case l.Connections < 1 || l.Connections > maxConnections:
		return errors.New("replicator: connections of a link must be 1 to 64")
	case l.Watchdog < idleTimeout:
		return errors.New("replicator: the watchdog must wait longer than a connection takes to be found dead")
	case c.Self.Mesh.IsZero() || c.Region == nil || c.Policy == nil || c.PacketConn == nil || c.Certs == nil:
		return errors.New("replicator: mesh, region, policy, socket and certificates are required")
	}
	return errors.Join(c.Self.Name.Validate(), c.Self.Number.Validate())
}

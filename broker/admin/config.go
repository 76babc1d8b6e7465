package admin

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/rhumbmq/rhumb/internal/version"
	"github.com/rhumbmq/rhumb/region"
)

// Limits that are not settings. They are listed in docs/limits.md.
const (
	maxHeaderBytes   = 64 << 10
	maxRequestBody   = 16 << 20 // of a produce request: JSON of records
	maxTopologyBody  = 2 << 20  // of a topology file with the plan that it rests on
	maxSmallBody     = 64 << 10 // of any other request
	maxProduceCount  = 10_000   // records of one produce request
	maxConsumeCount  = 10_000   // records of one consume answer
	maxConsumeBytes  = 4 << 20  // records of one consume answer, and a batch that is read, but for one larger record or batch at a time
	maxConsumeRecord = 32 << 20 // a record that a consume answer shows
	maxConsumeWait   = 30 * time.Second
	maxConcurrent    = 256              // requests being answered at once
	maxHeld          = 32 << 20         // bodies and answers of megabytes in memory, all calls together
	recordRoom       = 256              // that a record takes of it beside its bytes
	headerRoom       = 64               // that each of its headers takes
	holdTimeout      = 30 * time.Second // of a call that waits for a part of it
	maxDigests       = 8                // digest streams at once: each holds one read of readBytes, or a batch of maxConsumeBytes
	readBytes        = 1 << 20
	headerTimeout    = 10 * time.Second
	bodyTimeout      = 60 * time.Second
	createWait       = 10 * time.Second // for a partition that is being made
	createLook       = 20 * time.Millisecond
	idleTimeout      = 2 * time.Minute
	writeTimeout     = 60 * time.Second // without progress
	defaultStopGrace = 10 * time.Second
)

// Config is what a [Server] needs. All functions are called from many
// goroutines at once and must answer from memory.
type Config struct {
	// Identity of the node.
	Identity Identity
	// Topics, Logs and Data are the region and its broker.
	Topics Topics
	Logs   Logs
	Data   Data
	// Users are those of the mesh. Nil: the node keeps none.
	Users Users
	// Documents are the mesh's tenants and namespaces. Nil: the node keeps none.
	Documents Documents
	// Members are the documents of the mesh's regions. Nil: the node keeps none.
	Members Members
	// Drain says what a region that takes no producers has still to send; it gives
	// nil while the region takes them. Nil: it always does.
	Drain func() *Drain
	// ConfigStore is the configuration store as a whole. Nil: the node follows none.
	ConfigStore ConfigStore
	// Links gives the links' state. Nil: the region has none.
	Links func() []Link
	// LinkSums gives the same without partitions, for who needs none. Nil: Links does.
	LinkSums func() []Link
	// Sums adds up the region's topics. Nil: they are asked for one by one.
	Sums func() region.Sums
	// Paths gives the origins that can come to the region over several paths. Nil: there
	// are none.
	Paths func() []OriginPaths
	// Divergence finds and resolves diverged partitions. Nil: the region has no links.
	Divergence Divergence
	// LinkControl steers the links. Nil: the region has none.
	LinkControl LinkControl
	// AutoCreate makes topics that records are sent to, as for Kafka clients.
	AutoCreate bool
	// Regions gives all regions of the mesh with their admin addresses. Nil:
	// only this one is known, by no address.
	Regions func() []RegionEntry
	// Edges gives all edges of the mesh. Nil: there are none.
	Edges func() []Edge
	// Health is asked by /healthz, /readyz and metrics. Nil: always healthy.
	Health func() Health
	// Metrics give figures of other rooms at each scrape.
	Metrics []func(emit func(Metric))
	// Version of this binary. Zero: read from the binary.
	Version version.Info

	// Token that requests carry as "Authorization: Bearer …", of an admin. Empty:
	// none. Without any token, and without Certificates, everybody who reaches the
	// listener is an admin, which only a loopback listener allows.
	Token string
	// Tokens are further ones, with names and roles.
	Tokens *Tokens
	// TLS serves HTTPS.
	TLS *tls.Config
	// Certificates checks the certificate that a client shows, and says whom it
	// stands for, and what that one may do: no role is nothing. It is asked only if
	// there is one. Nil: certificates do not count.
	Certificates func(tls.ConnectionState) (name string, role Role, err error)
	// Hosts are names, besides localhost and IP addresses, under which browsers
	// and clients may reach the API: other Host headers are refused, so that no
	// web page can rebind its own name to this address.
	Hosts []string
	// MaxConnections is how many connections of a listener may be open, more are closed
	// at once. 0, or more than 1024: 1024.
	MaxConnections int

	// StopGrace is how long requests may go on after Run's context ended.
	// Default 10 s.
	StopGrace time.Duration
	// Logger takes an audit line for each change, and for each that was refused. Required.
	Logger *slog.Logger
}

// Validate reports what is missing or cannot work.
func (c *Config) Validate() error {
	switch {
	case c.Topics == nil || c.Logs == nil || c.Data == nil:
		return errors.New("admin: Topics, Logs and Data are needed")
	case c.Logger == nil:
		return errors.New("admin: Logger is needed")
	case c.Certificates != nil && c.TLS == nil:
		return errors.New("admin: Certificates need TLS")
	case c.StopGrace < 0:
		return fmt.Errorf("admin: StopGrace %s must not be negative", c.StopGrace)
	}
	return c.Identity.Name.Validate()
}

// guarded reports whether a stranger who reaches the listener is refused.
func (c *Config) guarded() bool { return c.hasTokens() || c.Certificates != nil }

func (c *Config) hasTokens() bool { return c.Token != "" || c.Tokens != nil && len(c.Tokens.all) > 0 }

// CheckExposure refuses an address that other machines can reach if nothing
// guards it: neither a token nor client certificates.
func (c *Config) CheckExposure(addr net.Addr) error {
	if c.guarded() {
		return nil
	}
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil || ap.Addr().Unmap().IsLoopback() {
		return nil // not an IP address: a pipe or unix socket, which is local
	}
	return fmt.Errorf("admin: %s can be reached by other machines: bind 127.0.0.1 or ::1, "+
		"or set a token or client certificates", addr)
}

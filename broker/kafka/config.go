package kafka

import (
	"crypto/tls"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Defaults of Config.
const (
	DefaultMaxRequest      = 100 << 20
	DefaultMaxSmallRequest = 1 << 20
	DefaultRequestBudget   = 256 << 20
	DefaultFetchBudget     = 128 << 20
	DefaultAnswerBudget    = 64 << 20
	DefaultFetchMaxBytes   = 55 << 20
	DefaultMaxInFlight     = 128
	DefaultMaxConnections  = 10000
	DefaultMaxSessions     = 1000
	DefaultIdleTimeout     = 10 * time.Minute
	DefaultIOTimeout       = 30 * time.Second

	DefaultFailedLoginDelay = 100 * time.Millisecond
)

// Config says how a server works. Sizes are in bytes.
type Config struct {
	// Broker does the work. Required.
	Broker *broker.Broker
	// NodeID is this node's id in Kafka's eyes: region number * 1000 + n. It must
	// be positive. Required.
	NodeID int32
	// Rack is the region's name, which clients see as the node's rack.
	Rack string
	// Accounts are the users who log in. Required for listeners that ask for that.
	Accounts Accounts
	// Logger gets a line for what an operator would note. Default: none.
	Logger *slog.Logger
	// MaxRequest bounds a Produce request. Default 100 MiB.
	MaxRequest int
	// MaxSmallRequest bounds all other requests, which are decoded into
	// something larger than themselves. Default 1 MiB.
	MaxSmallRequest int
	// RequestBudget bounds what requests of all connections hold. A connection
	// whose request does not fit waits, at most IOTimeout. Default 256 MiB.
	RequestBudget int64
	// FetchBudget bounds what fetches hold from reading to sending; an eighth of it
	// comes on top, for fetches that find it used up and take little. A fetch that
	// finds nothing free waits, or answers with less. Default 128 MiB.
	FetchBudget int64
	// AnswerBudget bounds encoded answers, but for fetched data, that wait to be
	// sent. A connection whose answer does not fit waits, at most IOTimeout. Default
	// 64 MiB.
	AnswerBudget int64
	// FetchMaxBytes bounds one fetch, whatever it asks for. Default 55 MiB.
	FetchMaxBytes int
	// MaxInFlight bounds the unanswered requests of a connection; it is not read
	// from when it has more. Default 128.
	MaxInFlight int
	// MaxConnections bounds open connections; more are closed at once. Default
	// 10,000.
	MaxConnections int
	// MaxPerAddress bounds open connections from one address; more are closed at
	// once. 0: no limit of its own.
	MaxPerAddress int
	// AcceptRate bounds the connections that a listener takes per second; more wait
	// in the system's queue. 0: no limit.
	AcceptRate int
	// MaxSessions bounds fetch sessions; the one longest unused goes first.
	// Default 1000.
	MaxSessions int
	// IdleTimeout closes a connection that sends nothing. Default 10 min.
	IdleTimeout time.Duration
	// IOTimeout bounds a TLS handshake, the arrival of a request that has begun,
	// and each MiB of an answer. Default 30 s.
	IOTimeout time.Duration
	// FailedLoginDelay is how long a failed login waits for its answer. Default
	// 100 ms, as Kafka's connection.failed.authentication.delay.ms.
	FailedLoginDelay time.Duration
}

// Validate checks the fields against each other.
func (c Config) Validate() error {
	d := c.withDefaults()
	switch {
	case c.Broker == nil:
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: no broker")
	case c.NodeID <= 0:
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: node id %d, want a positive one", c.NodeID)
	case d.MaxRequest < 0 || d.MaxSmallRequest < 0 || d.MaxInFlight < 0 || d.MaxConnections < 0 || d.MaxSessions < 0 || d.AnswerBudget < 0 || d.MaxPerAddress < 0 || d.AcceptRate < 0 ||
		d.IdleTimeout < 0 || d.IOTimeout < 0 || d.FailedLoginDelay < 0:
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: negative limit")
	case int64(d.MaxRequest) > d.RequestBudget || int64(d.MaxSmallRequest)*decodedFactor > d.RequestBudget:
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: a request budget of %d bytes holds no request of %d", d.RequestBudget,
			max(d.MaxRequest, d.MaxSmallRequest*decodedFactor))
	case int64(d.FetchMaxBytes) > d.FetchBudget:
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: a fetch of %d bytes is above the budget of %d", d.FetchMaxBytes, d.FetchBudget)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	set(&c.MaxRequest, DefaultMaxRequest)
	set(&c.MaxSmallRequest, DefaultMaxSmallRequest)
	set(&c.RequestBudget, DefaultRequestBudget)
	set(&c.FetchBudget, DefaultFetchBudget)
	set(&c.AnswerBudget, DefaultAnswerBudget)
	set(&c.FetchMaxBytes, int(min(DefaultFetchMaxBytes, c.FetchBudget)))
	set(&c.MaxInFlight, DefaultMaxInFlight)
	set(&c.MaxConnections, DefaultMaxConnections)
	set(&c.MaxSessions, DefaultMaxSessions)
	set(&c.IdleTimeout, DefaultIdleTimeout)
	set(&c.IOTimeout, DefaultIOTimeout)
	set(&c.FailedLoginDelay, DefaultFailedLoginDelay)
	return c
}

func set[T int | int64 | time.Duration](field *T, otherwise T) {
	if *field == 0 {
		*field = otherwise
	}
}

// Listener is one address that clients can connect to.
type Listener struct {
	// Name tells listeners apart in logs.
	Name string
	// Bind is the host:port to listen on; port 0 takes a free one.
	Bind string
	// Advertise is the host:port that Metadata names to clients of this listener.
	// An empty host means the address that the client connected to, port 0 or
	// none means the port that was bound. Default: both.
	Advertise string
	// Namespace is where clients are that need not say who they are: bare names
	// are its topics, and they reach no other. Zero: bare names are of
	// public/default, and full names reach every namespace.
	Namespace rhumb.Space
	// TLS, if set, is spoken on every connection. If it asks for client
	// certificates, and SASL is not set, they say who a client is.
	TLS *tls.Config
	// MaxConnections bounds open connections of this listener. 0: only that of all
	// listeners counts.
	MaxConnections int
	// SASL, if set, is how clients say who they are.
	SASL *SASL
}

// Validate checks the fields against each other, and that the addresses read as
// host:port.
func (l Listener) Validate() error {
	if l.SASL != nil {
		if err := l.SASL.Validate(); err != nil {
			return err
		}
	}
	if t := l.TLS; t != nil && t.ClientAuth == tls.RequireAnyClientCert && t.VerifyConnection == nil && t.VerifyPeerCertificate == nil {
		return rhumb.Errorf(rhumb.KindInvalid, "kafka: listener %q takes client certificates that nobody checks", l.Name)
	}
	_, _, err := l.advertised()
	return err
}

// asks reports whether a client has to say who it is.
func (l Listener) asks() bool {
	return l.SASL != nil || l.TLS != nil && l.TLS.ClientAuth >= tls.RequireAnyClientCert
}

func (l Listener) advertised() (host string, port int32, err error) {
	if l.Advertise == "" {
		return "", 0, nil
	}
	host, text, err := net.SplitHostPort(l.Advertise)
	if err != nil {
		return "", 0, rhumb.Errorf(rhumb.KindInvalid, "kafka: listener %q: advertised address %q: %w", l.Name, l.Advertise, err)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, rhumb.Errorf(rhumb.KindInvalid, "kafka: listener %q: advertised port %q", l.Name, text)
	}
	return host, int32(n), nil
}

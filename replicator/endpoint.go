package replicator

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"net"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// Times of a connection. A link must come back within about two seconds after
// its path does, and must not flap at 400 ms round trip and 10 % loss.
const (
	// idleTimeout is how long a silent connection is believed in.
	idleTimeout = 3 * time.Second
	// keepAlive makes silence improbable: at 10 % loss each way, six probes and
	// their answers from both sides would all have to vanish.
	keepAlive = 500 * time.Millisecond
	// helloTimeout bounds the exchange of hellos after the handshake.
	helloTimeout = 5 * time.Second
	// dialTimeout bounds one attempt, hellos included: a few retransmissions
	// at 400 ms and 10 % loss.
	dialTimeout = 6 * time.Second
)

// Flow control of a connection, in bytes. The stream window lets one lane alone
// carry 40 MB/s at 200 ms; the connection's is what a peer can make this
// process hold before anything is read.
const (
	streamWindow     = 8 << 20
	connectionWindow = 32 << 20
	// initialWindow is what each stream and each connection begin with.
	initialWindow = 1 << 20
	// windowBudget bounds by how much the windows of all connections together may have
	// grown: a link of many connections does not hold more than one of few.
	windowBudget = 128 << 20
)

// endpoint is the one UDP socket of a region: it dials and listens.
type endpoint struct {
	socket    *fec.Socket // around the UDP socket, below transport
	transport *quic.Transport
	listener  *quic.Listener
	resolve   func(ctx context.Context, peer rhumb.RegionName, addr string) (net.Addr, error)
	certs     *certs.Source
	mesh      rhumb.UUID
	config    *quic.Config
	windows   windows
}

// listen takes over the socket. Closing the endpoint does not close it. refused
// is told of each peer whose certificate is not accepted: the library itself
// drops those without a word.
func listen(cfg *Config, refused func(tls.ConnectionState, error)) (*endpoint, error) {
	server := certs.LinkServer(cfg.Certs, cfg.Self.Mesh)
	verify := server.VerifyConnection
	server.VerifyConnection = func(cs tls.ConnectionState) error {
		err := verify(cs)
		if err != nil {
			refused(cs, err)
		}
		return err
	}
	socket := fec.NewSocket(cfg.PacketConn)
	e := &endpoint{
		socket:    socket,
		transport: &quic.Transport{Conn: socket.PacketConn(), StatelessResetKey: resetKey(server)},
		resolve:   cfg.Resolve,
		certs:     cfg.Certs,
		mesh:      cfg.Self.Mesh,
		config: &quic.Config{
			MaxIdleTimeout:                 idleTimeout,
			KeepAlivePeriod:                keepAlive,
			HandshakeIdleTimeout:           dialTimeout / 2,
			InitialStreamReceiveWindow:     initialWindow,
			MaxStreamReceiveWindow:         streamWindow,
			InitialConnectionReceiveWindow: initialWindow,
			MaxConnectionReceiveWindow:     connectionWindow,
			MaxIncomingStreams:             maxLanes + 1,
			MaxIncomingUniStreams:          2 * maxLanes, // strands of lanes
			EnableDatagrams:                true,         // padding
		},
	}
	e.config.AllowConnectionWindowIncrease = e.windows.allow
	var err error
	e.listener, err = e.transport.Listen(server, e.config)
	return e, err
}

// resetKey lets a restarted process tell its peers at once that it does not
// know their connections any more, instead of letting them time out. It must be
// secret and the same after a restart: it is derived from the private key.
func resetKey(c *tls.Config) *quic.StatelessResetKey {
	pair, err := c.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return nil // the listener will say so
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil // a key that lives in hardware: peers time out instead
	}
	key := quic.StatelessResetKey(sha256.Sum256(append([]byte("rhumb stateless reset key: "), der...)))
	return &key
}

// dial opens a connection to one of a peer's addresses, resolved now.
func (e *endpoint) dial(ctx context.Context, peer rhumb.RegionName, addr string) (*quic.Conn, error) {
	to, err := e.resolve(ctx, peer, addr)
	if err != nil {
		return nil, err
	}
	return e.dialTo(ctx, peer, to)
}

// dialTo opens a connection to a peer at a network address.
func (e *endpoint) dialTo(ctx context.Context, peer rhumb.RegionName, to net.Addr) (*quic.Conn, error) {
	qc, err := e.transport.Dial(ctx, to, certs.LinkClient(e.certs, e.mesh, peer), e.config)
	if err == nil {
		e.windows.watch(qc)
	}
	return qc, err
}

// close ends all connections and waits until the socket is no longer read.
func (e *endpoint) close() error {
	err := e.listener.Close()
	if terr := e.transport.Close(); err == nil {
		err = terr
	}
	return err
}

// ResolveUDP is the usual [Config].Resolve: the system's resolver, the first
// address that it gives.
func ResolveUDP(ctx context.Context, _ rhumb.RegionName, addr string) (net.Addr, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return nil, err
	}
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	return &net.UDPAddr{IP: addrs[0].IP, Zone: addrs[0].Zone, Port: number}, nil
}

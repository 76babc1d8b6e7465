package sim

import (
	"context"
	"net"
	"sync"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/rhumbmq/rhumb/internal/relay"
)

type route struct{ from, to string } // IP addresses

// network carries packets between the regions' sockets: one [relay.Line] for
// each direction between two hosts. It is a [simnet.Router]. The luck of all
// lines comes from its seed.
type network struct {
	seed   uint64
	ctx    context.Context
	cancel context.CancelFunc
	lines  sync.WaitGroup

	mu      sync.Mutex
	byRoute map[route]*relay.Line
	sockets map[string]simnet.PacketReceiver // by IP
}

var _ simnet.Router = (*network)(nil)

func newNetwork(seed uint64) *network {
	ctx, cancel := context.WithCancel(context.Background())
	return &network{
		seed: seed, ctx: ctx, cancel: cancel,
		byRoute: map[route]*relay.Line{}, sockets: map[string]simnet.PacketReceiver{},
	}
}

func ipOf(a net.Addr) string { return a.(*net.UDPAddr).IP.String() }

// listen opens the one UDP socket of the host with this IP, in place of an
// earlier one: packets to the old socket are lost, as after a crash.
func (n *network) listen(ip net.IP) net.PacketConn {
	addr := &net.UDPAddr{IP: ip, Port: 7650}
	conn := simnet.NewBlockingSimConn(addr, n)
	n.AddNode(addr, conn)
	return conn
}

// AddNode implements [simnet.Router].
func (n *network) AddNode(addr net.Addr, r simnet.PacketReceiver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sockets[ipOf(addr)] = r
}

// line gives the line of a direction, made at its first use.
func (n *network) line(r route) *relay.Line {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.byRoute[r]; l != nil {
		return l
	}
	from, to := &net.UDPAddr{IP: net.ParseIP(r.from), Port: 7650}, &net.UDPAddr{IP: net.ParseIP(r.to), Port: 7650}
	l := relay.NewLine(n.seed, uint64(len(n.byRoute)), relay.Settings{}, func(datagram []byte) {
		n.mu.Lock()
		socket := n.sockets[r.to]
		n.mu.Unlock()
		if socket != nil { // waits for its reader; returns when the socket is closed
			socket.RecvPacket(simnet.Packet{From: from, To: to, Data: append([]byte(nil), datagram...)})
		}
	})
	n.byRoute[r] = l
	n.lines.Go(func() { l.Run(n.ctx) })
	return l
}

// SendPacket implements [simnet.Router].
func (n *network) SendPacket(p simnet.Packet) error {
	n.line(route{ipOf(p.From), ipOf(p.To)}).Send(p.Data)
	return nil
}

// set changes what one direction does to packets.
func (n *network) set(from, to net.IP, s relay.Settings) {
	n.line(route{from.String(), to.String()}).Set(s)
}

// close ends all lines. The sockets must be closed already.
func (n *network) close() {
	n.cancel()
	n.lines.Wait()
}

package cases

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/rhumbmq/rhumb/internal/relay"
)

// near is the path between two regions unless a test says otherwise.
var near = relay.Settings{Delay: 10 * time.Millisecond}

type route struct{ from, to string } // IP addresses

// network joins the regions' sockets by one [relay.Line] for each direction
// between two of them.
type network struct {
	ctx    context.Context
	cancel context.CancelFunc
	lines  sync.WaitGroup

	mu      sync.Mutex
	byRoute map[route]*relay.Line
	sockets map[string]simnet.PacketReceiver // by IP
}

var _ simnet.Router = (*network)(nil)

func newNetwork() *network {
	ctx, cancel := context.WithCancel(context.Background())
	return &network{ctx: ctx, cancel: cancel, byRoute: map[route]*relay.Line{}, sockets: map[string]simnet.PacketReceiver{}}
}

func addressOf(ip string) *net.UDPAddr { return &net.UDPAddr{IP: net.ParseIP(ip), Port: 7650} }

// listen opens the one socket of a region, in place of an earlier one.
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
	n.sockets[addr.(*net.UDPAddr).IP.String()] = r
}

// SendPacket implements [simnet.Router].
func (n *network) SendPacket(p simnet.Packet) error {
	n.line(route{p.From.(*net.UDPAddr).IP.String(), p.To.(*net.UDPAddr).IP.String()}).Send(p.Data)
	return nil
}

func (n *network) line(r route) *relay.Line {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.byRoute[r]; l != nil {
		return l
	}
	from, to := addressOf(r.from), addressOf(r.to)
	l := relay.NewLine(1, uint64(len(n.byRoute)), near, func(datagram []byte) {
		n.mu.Lock()
		socket := n.sockets[r.to]
		n.mu.Unlock()
		if socket != nil {
			socket.RecvPacket(simnet.Packet{From: from, To: to, Data: append([]byte(nil), datagram...)})
		}
	})
	n.byRoute[r] = l
	n.lines.Go(func() { l.Run(n.ctx) })
	return l
}

func (n *network) set(from, to net.IP, s relay.Settings) {
	n.line(route{from.String(), to.String()}).Set(s)
}

// close ends all lines; the sockets are closed already.
func (n *network) close() {
	n.cancel()
	n.lines.Wait()
}

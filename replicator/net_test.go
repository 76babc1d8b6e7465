package replicator

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/rhumbmq/rhumb/internal/relay"
)

// network is a simulated one: quic-go's simulated sockets, joined by a bad line
// for each ordered pair of them.
type network struct {
	t    testing.TB
	seed uint64
	ctx  context.Context
	wg   sync.WaitGroup

	mu    sync.Mutex
	nodes map[string]simnet.PacketReceiver
	lines map[[2]string]*relay.Line
	def   relay.Settings
	// bottlenecks are addresses from which everything leaves over one line.
	bottlenecks map[string]*relay.Line
}

// newNetwork makes a network whose lines start with the settings s. It ends
// with the test.
func newNetwork(t testing.TB, seed uint64, s relay.Settings) *network {
	ctx, cancel := context.WithCancel(context.Background())
	n := &network{t: t, seed: seed, ctx: ctx, nodes: map[string]simnet.PacketReceiver{}, lines: map[[2]string]*relay.Line{}, def: s}
	t.Cleanup(func() { cancel(); n.wg.Wait() })
	return n
}

// socket opens one. Opening the same address again replaces the old socket, as
// a restarted process does.
func (n *network) socket(addr *net.UDPAddr) *simnet.SimConn {
	return simnet.NewBlockingSimConn(addr, n)
}

// AddNode implements simnet.Router.
func (n *network) AddNode(addr net.Addr, r simnet.PacketReceiver) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nodes[addr.String()] = r
}

// SendPacket implements simnet.Router.
func (n *network) SendPacket(p simnet.Packet) error {
	n.mu.Lock()
	shared := n.bottlenecks[p.From.String()]
	n.mu.Unlock()
	if shared != nil {
		to := p.To.(*net.UDPAddr).AddrPort()
		b := append(binary.BigEndian.AppendUint16(to.Addr().Unmap().AsSlice(), to.Port()), p.Data...)
		shared.Send(b)
		return nil
	}
	n.line(p.From, p.To).Send(p.Data)
	return nil
}

// bottleneck has everything that an address sends leave over one line. It replaces the
// lines to each receiver.
func (n *network) bottleneck(from net.Addr, s relay.Settings) {
	l := relay.NewLine(n.seed, 99, s, func(d []byte) {
		addr, _ := netip.AddrFromSlice(d[:4])
		to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, binary.BigEndian.Uint16(d[4:])))
		n.mu.Lock()
		r := n.nodes[to.String()]
		n.mu.Unlock()
		if r != nil {
			r.RecvPacket(simnet.Packet{From: from, To: to, Data: d[6:]})
		}
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.bottlenecks == nil {
		n.bottlenecks = map[string]*relay.Line{}
	}
	n.bottlenecks[from.String()] = l
	n.wg.Go(func() { _ = l.Run(n.ctx) })
}

func (n *network) line(from, to net.Addr) *relay.Line {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{from.String(), to.String()}
	l := n.lines[key]
	if l == nil {
		l = relay.NewLine(n.seed, uint64(len(n.lines)), n.def, func(d []byte) {
			n.mu.Lock()
			r := n.nodes[to.String()]
			n.mu.Unlock()
			if r != nil {
				r.RecvPacket(simnet.Packet{From: from, To: to, Data: d})
			}
		})
		n.lines[key] = l
		n.wg.Go(func() { _ = l.Run(n.ctx) })
	}
	return l
}

// set changes both directions between two addresses.
func (n *network) set(a, b net.Addr, s relay.Settings) {
	n.line(a, b).Set(s)
	n.line(b, a).Set(s)
}

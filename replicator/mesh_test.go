package replicator

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/testutils/simnet"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// mesh is some regions in memory, joined by a simulated network.
type mesh struct {
	t      testing.TB
	id     rhumb.UUID
	ca     *certs.CA
	policy *fakePolicy
	net    *network
	limits Limits
	// correction is of links by peer, the same for all nodes.
	correction map[rhumb.RegionName]fec.Mode
	nodes      map[rhumb.RegionName]*node
}

// uncorrected has no link correct its losses.
var uncorrected = map[rhumb.RegionName]fec.Mode{"us": fec.Pinned(fec.Code{}), "eu": fec.Pinned(fec.Code{})}

// node is one region: its log outlives its manager.
type node struct {
	mesh    *mesh
	self    Identity
	addr    *net.UDPAddr
	region  *fakeRegion
	policy  Policy
	certs   *certs.Source
	boot    rhumb.UUID // zero: another one at each start
	logs    *logBuffer
	resolve func(ctx context.Context, peer rhumb.RegionName, addr string) (net.Addr, error)
	limits  *Limits // nil: those of the mesh
	docs    Documents

	manager *Manager
	socket  *simnet.SimConn
	done    chan error
}

var orders = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}

// newMesh makes a mesh in which every region sends public/default to every
// other one. Nothing runs yet.
func newMesh(t testing.TB, s relay.Settings, names ...rhumb.RegionName) *mesh {
	t.Helper()
	ms := &mesh{t: t, id: rhumb.NewUUID(), net: newNetwork(t, 1, s), nodes: map[rhumb.RegionName]*node{},
		policy: &fakePolicy{docs: map[rhumb.Topic]configstore.Topic{}, subs: map[int]func(){}}}
	var err error
	if ms.ca, err = certs.NewCA(ms.id, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		ms.add(name)
	}
	ms.policy.edges = fullMesh(names...)
	return ms
}

func (ms *mesh) add(name rhumb.RegionName) *node {
	ms.t.Helper()
	number := rhumb.RegionNumber(len(ms.nodes) + len(ms.policy.gone) + 1) // none is given twice
	n := &node{mesh: ms, self: Identity{Mesh: ms.id, Name: name, Number: number, Data: rhumb.NewUUID()},
		addr: &net.UDPAddr{IP: net.IPv4(1, 0, 0, byte(number)), Port: 7650}, region: newFakeRegion(number), policy: ms.policy,
		certs: ms.certificate(ms.ca, name), logs: &logBuffer{}}
	n.resolve = func(_ context.Context, _ rhumb.RegionName, addr string) (net.Addr, error) {
		return net.ResolveUDPAddr("udp", addr)
	}
	ms.nodes[name] = n
	ms.policy.mu.Lock()
	defer ms.policy.mu.Unlock()
	ms.policy.regions = append(ms.policy.regions, configstore.Region{Name: name, Number: number, DataUUID: n.self.Data, Geo: []string{n.addr.String()}})
	return n
}

func (ms *mesh) certificate(ca *certs.CA, name rhumb.RegionName) *certs.Source {
	ms.t.Helper()
	pair, err := ca.IssueRegion(name, nil, 24*time.Hour)
	if err != nil {
		ms.t.Fatal(err)
	}
	src, err := certs.New([]*x509.Certificate{ca.Cert}, pair)
	if err != nil {
		ms.t.Fatal(err)
	}
	return src
}

func fullMesh(names ...rhumb.RegionName) (edges []configstore.Edge) {
	for _, a := range names {
		for _, b := range names {
			if a != b {
				edges = append(edges, configstore.Edge{Tenant: "public", Namespace: "default", From: a, To: b, Start: configstore.StartEarliest})
			}
		}
	}
	return edges
}

// start runs all nodes; they are stopped at the end of the test.
func (ms *mesh) start() {
	for _, n := range ms.nodes {
		n.start()
	}
	ms.t.Cleanup(func() {
		for _, n := range ms.nodes {
			n.stop()
		}
	})
}

func (n *node) start() {
	n.mesh.t.Helper()
	n.socket = n.mesh.net.socket(n.addr)
	limits := n.mesh.limits
	if n.limits != nil {
		limits = *n.limits
	}
	m, err := New(Config{Self: n.self, Boot: n.boot, Region: n.region, Policy: n.policy, PacketConn: n.socket, Certs: n.certs,
		Resolve: n.resolve, Logger: slog.New(slog.NewTextHandler(n.logs, nil)), Limits: limits, Correction: n.mesh.correction, Documents: n.docs})
	if err != nil {
		n.mesh.t.Fatal(err)
	}
	n.manager, n.done = m, make(chan error, 1)
	go func() { n.done <- m.Run(context.Background()) }()
}

func (n *node) stop() {
	n.mesh.t.Helper()
	if n.manager == nil {
		return
	}
	if err := n.end(); err != nil {
		n.mesh.t.Errorf("run: %v", err)
	}
}

func (n *node) end() error {
	n.mesh.t.Helper()
	if err := n.manager.Close(); err != nil {
		n.mesh.t.Errorf("close: %v", err)
	}
	err := <-n.done
	_ = n.socket.Close()
	n.manager = nil
	return err
}

// kill stops a node without a word to its peers. Its manager may find out that
// the socket is gone.
func (n *node) kill() {
	_ = n.socket.Close()
	_ = n.end()
}

// create makes a topic.
func (n *node) create(t rhumb.Topic, partitions int32) {
	n.mesh.t.Helper()
	spec := topicSpec{Topic: t, Partitions: partitions, Deletions: n.mesh.policy.docs[t].Deletions}
	if _, err := n.region.CreateTopic(context.Background(), spec); err != nil {
		n.mesh.t.Fatal(err)
	}
}

// until waits until a condition holds, or fails the test after a virtual while.
func (ms *mesh) until(what string, within time.Duration, ok func() bool) {
	ms.t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			for _, n := range ms.nodes {
				ms.t.Logf("%s: %s\n%s", n.self.Name, pretty(n.status()), n.logs)
			}
			ms.t.Fatalf("after %s still not: %s", within, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// pass lets virtual time go by.
func (ms *mesh) pass(d time.Duration) { time.Sleep(d) }

func (n *node) status() Status {
	if n.manager == nil {
		return Status{}
	}
	return n.manager.Status()
}

func (n *node) link(peer rhumb.RegionName) LinkStatus {
	for _, l := range n.status().Links {
		if l.Peer == peer {
			return l
		}
	}
	return LinkStatus{}
}

func (n *node) connected(peer rhumb.RegionName) bool { return n.link(peer).State == LinkConnected }

// flow gives the status of orders' partition 0 to a peer.
func (n *node) flow(peer rhumb.RegionName) PartitionStatus {
	for _, p := range n.link(peer).Partitions {
		if p.Topic == orders && p.Partition == 0 {
			return p
		}
	}
	return PartitionStatus{}
}

// produce appends one batch of count records with its region's mark to a partition.
func (n *node) produce(t rhumb.Topic, partition, count, size int) {
	n.mesh.t.Helper()
	r := n.region
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.log(t, partition)
	batch := makeBatch(count, size)
	h, err := codec.CheckBatch(batch)
	if err != nil {
		n.mesh.t.Fatal(err)
	}
	first, last := l.end, l.end+rhumb.Offset(count)-1
	e := codec.Envelope{Region: r.number, Life: l.info.Life, First: first, Last: last, Prev: l.ownLast,
		Chain: codec.NextChain(l.ownChain, first, last, h.CRC), AppendTime: time.Now().UnixMilli(), Count: uint32(count)}
	l.store(e, batch)
	l.ownLast, l.ownChain = last, e.Chain
	r.signal(l.info.Ref)
}

func (r *fakeRegion) log(t rhumb.Topic, partition int) *fakeLog {
	return r.logs[r.topics[t].Partitions[partition].Ref]
}

var batchNumber struct {
	sync.Mutex
	n uint64
}

// makeBatch makes a record batch whose content differs from all others'. Its
// records are noise: nobody looks into them.
func makeBatch(count, size int) []byte {
	batchNumber.Lock()
	batchNumber.n++
	number := batchNumber.n
	batchNumber.Unlock()
	b := make([]byte, codec.BatchHeaderSize+max(8, size))
	be := binary.BigEndian
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint32(b[23:], uint32(count-1))
	be.PutUint64(b[43:], ^uint64(0)) // no producer
	be.PutUint16(b[51:], ^uint16(0))
	be.PutUint32(b[53:], ^uint32(0))
	be.PutUint32(b[57:], uint32(count))
	var seed [32]byte
	be.PutUint64(seed[:], number)
	_, _ = rand.NewChaCha8(seed).Read(b[codec.BatchHeaderSize:])
	be.PutUint32(b[17:], codec.Checksum(b[21:]))
	return b
}

// copied reports whether to holds all of from's own records of a partition that
// may leave it: each once, in order, unchanged.
func copied(from, to *node, t rhumb.Topic, partition int) bool {
	a, b := from.region.own(t, partition, from.self.Number), to.region.own(t, partition, from.self.Number)
	return len(a) == len(b) && slices.EqualFunc(a, b, func(x, y stored) bool {
		return x.Envelope.First == y.Envelope.First && x.Envelope.Last == y.Envelope.Last && x.Envelope.Life == y.Envelope.Life &&
			x.Envelope.Chain == y.Envelope.Chain && bytes.Equal(x.Batch[21:], y.Batch[21:])
	})
}

// own gives the batches of an origin in a partition.
func (r *fakeRegion) own(t rhumb.Topic, partition int, origin rhumb.RegionNumber) (got []stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.topics[t] == nil || partition >= len(r.topics[t].Partitions) {
		return nil
	}
	for _, b := range r.log(t, partition).batches {
		if b.Envelope.Region == origin {
			got = append(got, b)
		}
	}
	return got
}

// logBuffer holds what a node logged.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBuffer) count(text string) int { return strings.Count(l.String(), text) }

// inBubble runs a test of a mesh in virtual time. Whatever still runs at its end
// fails the test.
func inBubble(t *testing.T, s relay.Settings, names []rhumb.RegionName, test func(ms *mesh)) {
	bubble.Test(t, func(t *testing.T) { test(newMesh(t, s, names...)) })
}

var usEu = []rhumb.RegionName{"us", "eu"}

func TestFullMeshCopiesEverythingOnce(t *testing.T) {
	names := []rhumb.RegionName{"us", "eu", "ap"}
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond, Loss: .01}, names, func(ms *mesh) {
		ms.start()
		ms.nodes["us"].create(orders, 3)
		for _, n := range names {
			ms.until(fmt.Sprintf("%s has the topic", n), 10*time.Second, func() bool {
				info, ok := ms.nodes[n].region.Topic(orders)
				return ok && len(info.Partitions) == 3
			})
		}
		for i := range 300 {
			n := ms.nodes[names[i%3]]
			n.produce(orders, i/3%3, 1+i%5, 200+i*7)
			time.Sleep(time.Duration(i%7) * time.Millisecond)
		}
		for _, a := range names {
			for _, b := range names {
				if a == b {
					continue
				}
				for p := range 3 {
					ms.until(fmt.Sprintf("%s has all of %s, partition %d", b, a, p), 20*time.Second, func() bool {
						return copied(ms.nodes[a], ms.nodes[b], orders, p)
					})
				}
			}
		}
		ms.until("lag is zero", 5*time.Second, func() bool {
			for _, n := range ms.nodes {
				for _, l := range n.status().Links {
					for _, p := range l.Partitions {
						if !p.Lag.Known || p.Lag.Records != 0 || p.State != SessionIdle {
							return false
						}
					}
				}
			}
			return true
		})
		for _, n := range ms.nodes {
			if n.region.repeats > 0 {
				ms.t.Errorf("%s got %d batches again on a link that never broke", n.self.Name, n.region.repeats)
			}
		}
	})
}

// pretty shows what matters of a status.
func pretty(s Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "send %d receive %d", s.SendBytes, s.ReceiveBytes)
	for _, l := range s.Links {
		fmt.Fprintf(&b, "\n  -> %s %s err %q rebuilds %d", l.Peer, l.State, l.LastError, l.Rebuilds)
		for _, p := range l.Partitions {
			fmt.Fprintf(&b, "\n     out %s/%d %s lag %+v confirmed %d end %d err %q", p.Topic.Short(), p.Partition, p.State, p.Lag, p.Confirmed, p.End, p.LastError)
		}
		for _, p := range l.Inbound {
			fmt.Fprintf(&b, "\n     in  %s/%d open %t watermark %d head %d held %d", p.Topic.Short(), p.Partition, p.Open, p.Watermark, p.Head, p.Held)
		}
	}
	return b.String()
}

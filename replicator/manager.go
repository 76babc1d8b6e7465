package replicator

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// maxGreeting bounds the accepted connections that have not said hello yet.
const maxGreeting = 64

// Manager keeps the links of one region.
type Manager struct {
	// Fixed by New.
	cfg      Config
	log      *slog.Logger
	greeting *gate // accepted connections without a hello
	joined   *gate // connections that joined others, of all links
	watcher  *watcher
	origins  origins
	changed  chan struct{} // capacity 1: policy or topics changed
	whole    atomic.Bool   // all topics and edges are to be looked at
	looks    atomic.Uint64 // how often that was done
	done     chan struct{} // closed when Run has returned
	ended    context.Context
	end      context.CancelCauseFunc
	running  atomic.Bool
	fixed    atomic.Int64 // connections that links use whatever they measure, 0: as they measure; for tests

	endpoint *endpoint // set by Run before anything uses it

	list atomic.Pointer[[]*link] // those of links, by name

	mark region.TopicsMark // of the topics that links know; follow's own

	mu      sync.Mutex
	links   map[rhumb.RegionName]*link
	sources map[rhumb.PartitionRef]*source // nil before the first look
	refused map[string]string              // peer -> the last refusal that was logged
	strays  sync.WaitGroup                 // of links that were removed
}

// New checks the configuration and builds a manager. Nothing runs before Run.
func New(cfg Config) (*Manager, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, log: cfg.Logger.With("component", "replicator", "region", cfg.Self.Name),
		greeting: newGate(maxGreeting), joined: newGate(maxJoined),
		changed: make(chan struct{}, 1), done: make(chan struct{}),
		links: map[rhumb.RegionName]*link{}, refused: map[string]string{},
	}
	m.watcher = newWatcher(cfg.Region, m.grew)
	m.origins.init(cfg.Self, m.scopeOf)
	m.ended, m.end = context.WithCancelCause(context.Background())
	return m, nil
}

// Run keeps links until the context ends or Close is called, and returns when
// all its goroutines have ended. It may be called once.
func (m *Manager) Run(ctx context.Context) error {
	if m.running.Swap(true) {
		return errors.New("replicator: run called twice")
	}
	defer close(m.done)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errStopped)
	defer context.AfterFunc(m.ended, func() { cancel(errStopped) })()
	endpoint, err := listen(&m.cfg, m.refuseCertificate)
	if err != nil {
		return err
	}
	m.mu.Lock() // for Check, which may come before
	m.endpoint = endpoint
	m.mu.Unlock()
	defer m.cfg.Policy.Subscribe(m.wake)()
	defer m.cfg.Region.Subscribe(m.signal)()

	var wg sync.WaitGroup
	wg.Go(func() { m.watcher.run(ctx) })
	wg.Go(func() { cancel(m.accept(ctx)) })
	wg.Go(func() { cancel(endpoint.socket.Run(ctx)) })
	m.follow(ctx)
	m.strays.Wait()
	err = m.endpoint.close()
	wg.Wait()
	if cause := context.Cause(ctx); !quiet(cause) {
		return cause
	}
	return err
}

// Close ends Run and waits for it. It may be called at any time, any number of
// times.
func (m *Manager) Close() error {
	m.end(errStopped)
	if m.running.Load() {
		<-m.done
	}
	return nil
}

// wake has policy and topics looked at again, all of them. It never blocks.
func (m *Manager) wake() {
	m.whole.Store(true)
	m.signal()
}

// signal has it looked at which topics changed. It never blocks.
func (m *Manager) signal() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// accept serves connections that others dial until the listener closes.
func (m *Manager) accept(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		qc, err := m.endpoint.listener.Accept(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		m.endpoint.windows.watch(qc)
		if !m.greeting.try(1) {
			_ = qc.CloseWithError(codeClosing, "too many connections are being made")
			continue
		}
		wg.Go(func() { m.serve(ctx, qc) })
	}
}

// serve takes an accepted connection through its hello and its life.
func (m *Manager) serve(ctx context.Context, qc *quic.Conn) {
	c, err := m.greet(ctx, qc, nil)
	m.greeting.release(1)
	if err == nil {
		if err = c.link.adopt(c); err != nil {
			c.uncorrect()
		}
	}
	var j *joining
	if errors.As(err, &j) {
		m.joins(ctx, qc, j)
		return
	}
	if err != nil {
		code, text := closing(err)
		_ = qc.CloseWithError(code, text)
		if id, idErr := certs.PeerOf(qc.ConnectionState().TLS); idErr == nil {
			m.refuse(id.Name, err)
		}
		return
	}
	c.run(ctx)
}

// maxRefused bounds the peers of which the last refusal is remembered.
const maxRefused = 1024

// refuse logs a refusal of either side, once per peer and reason. Other errors
// are faults of the network, which the link shows.
func (m *Manager) refuse(peer string, err error) {
	var r *refusal
	if !errors.As(err, &r) || r.told {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused[peer] == r.reason || len(m.refused) >= maxRefused {
		return
	}
	m.refused[peer] = r.reason
	m.log.Error("link is refused", "peer_region", peer, "err", r.reason)
}

// refuseCertificate is refuse for a peer that is not even heard.
func (m *Manager) refuseCertificate(cs tls.ConnectionState, err error) {
	if len(cs.PeerCertificates) > 0 {
		m.refuse("certificate "+cs.PeerCertificates[0].Subject.CommonName, refusef("%v", err))
	}
}

// welcome forgets the last refusal of a peer.
func (m *Manager) welcome(peer rhumb.RegionName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refused, string(peer))
}

// link finds the link to a region, nil if there is none.
func (m *Manager) link(name rhumb.RegionName) *link {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.links[name]
}

// reconcile brings links and sources in line with policy and topics.
func (m *Manager) reconcile(ctx context.Context) {
	m.mark = m.cfg.Region.TopicsSince(region.TopicsMark{}).Mark // what comes later is told again
	sources := sourcesOf(m.cfg.Self.Number, m.alive(m.cfg.Region.Topics()))
	base := current(sources)
	m.watcher.update(base)
	regions := m.cfg.Policy.Regions()
	edges := m.cfg.Policy.Edges()
	pauses := m.pauses()
	m.mu.Lock()
	m.sources = base
	current := map[rhumb.RegionName]bool{}
	for i := range regions {
		r := &regions[i]
		if r.Name == m.cfg.Self.Name || r.Number == m.cfg.Self.Number {
			continue
		}
		current[r.Name] = true
		if old := m.links[r.Name]; old != nil && old.number != r.Number {
			m.drop(old)
		}
		if m.links[r.Name] == nil {
			m.add(ctx, newLink(m, r))
		}
	}
	for name, l := range m.links {
		if !current[name] {
			m.drop(l)
		}
	}
	links := m.sorted()
	m.mu.Unlock()
	gone := goneOf(m.cfg.Policy.Owners())
	m.origins.setPolicy(originPolicy{edges: edges, regions: regions, gone: gone, links: links}, base)
	rebuilt := slices.ContainsFunc(regions, func(r configstore.Region) bool { return r.Name == m.cfg.Self.Name && r.Rebuilds > 0 })
	for _, l := range links {
		n := int64(len(links))
		l.send.resize(m.cfg.Limits.SendBudget / n)
		l.owing.resize(debtPart(m.cfg.Limits.SendBudget / n))
		l.behind.resize(backlogPart(m.cfg.Limits.SendBudget / n))
		l.receive.resize(m.cfg.Limits.ReceiveBudget / n)
		i := slices.IndexFunc(regions, func(r configstore.Region) bool { return r.Name == l.name })
		out, in := edgesBetween(edges, m.cfg.Self.Name, l.name)
		l.setPauses(pauses[l.name])
		l.setPolicy(linkPolicy{geo: regions[i].Geo, out: out, in: in, gone: gone, rebuilt: rebuilt || regions[i].Rebuilds > 0})
		l.setSources(sources, base)
	}
}

// alive gives the topics that were not deleted in the mesh meanwhile.
func (m *Manager) alive(topics []topicInfo) []topicInfo {
	return slices.DeleteFunc(slices.Clone(topics), func(t topicInfo) bool {
		doc, ok := m.cfg.Policy.TopicDoc(t.Topic)
		return ok && doc.Deletions > t.Deletions
	})
}

// add starts a link; drop ends one. The caller holds mu.
func (m *Manager) add(ctx context.Context, l *link) {
	ctx, l.stop = context.WithCancelCause(ctx)
	m.links[l.name] = l
	m.listed()
	m.strays.Go(func() { l.run(ctx) })
}

func (m *Manager) drop(l *link) {
	delete(m.links, l.name)
	m.listed()
	l.stop(errNoEdge)
	l.setPolicy(linkPolicy{})
	l.setSources(nil, nil)
}

// sorted gives the links by name. The caller holds mu.
func (m *Manager) sorted() []*link {
	links := make([]*link, 0, len(m.links))
	for _, l := range m.links {
		links = append(links, l)
	}
	slices.SortFunc(links, func(a, b *link) int { return strings.Compare(string(a.name), string(b.name)) })
	return links
}

// listed shows the links to those who do not take mu. The caller holds mu.
func (m *Manager) listed() {
	links := m.sorted()
	m.list.Store(&links)
}

// edgesBetween gives the edges from self to peer and back, by scope.
func edgesBetween(edges []configstore.Edge, self, peer rhumb.RegionName) (out, in map[scope]configstore.Edge) {
	out, in = map[scope]configstore.Edge{}, map[scope]configstore.Edge{}
	for _, e := range edges {
		s := scope{e.Tenant, e.Namespace, e.Topic}
		switch {
		case e.From == self && e.To == peer:
			out[s] = e
		case e.From == peer && e.To == self:
			in[s] = e
		}
	}
	return out, in
}

// noticed has flows of a partition started where they sleep, because a session of
// flow by saw that something of it may leave, in a log with a last own record. It takes no
// lock that all sessions share where there is nobody else to wake: where its link is the only
// one. One that was dropped is none any more, and the one that is left sleeps, maybe.
func (m *Manager) noticed(by *flow, ownLast rhumb.Offset) {
	alone := !by.source.copied && by.source.closed == nil && !by.barren(ownLast) && !by.link.passes.Load()
	if links := m.list.Load(); alone && links != nil && len(*links) == 1 && (*links)[0] == by.link {
		return
	}
	m.wakeFlows(by.source.ref, by, alone)
}

// grew has the sessions of a partition that grew started where they sleep.
func (m *Manager) grew(s *source) { m.wakeFlows(s.ref, nil, false) }

// wakeFlows wakes those of a partition. alone: on its own link none is to wake but flow by.
func (m *Manager) wakeFlows(ref rhumb.PartitionRef, by *flow, alone bool) {
	st, ok := m.cfg.Region.Glance(ref)
	links := m.list.Load()
	if !ok || links == nil {
		return
	}
	for _, l := range *links {
		if !alone || l != by.link {
			l.wake(ref, &st, by)
		}
	}
}

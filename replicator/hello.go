package replicator

import (
	"context"
	"slices"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// featureForward says that a side knows sessions of other origins than the peer.
const featureForward uint64 = 1 << 0

// featureStrands says that a side spreads lanes over several connections, and says in
// its hello how many it takes. A side that is set to one connection does not.
const featureStrands uint64 = 1 << 1

// featureGone says that a side takes records of regions that were removed from the
// mesh over edges that bring those, and do not forward others.
const featureGone uint64 = 1 << 2

// featureSeen says that a side tells what it has seen of the mesh's documents, and
// understands the close by which a region learns that it was removed.
const featureSeen uint64 = 1 << 4

// featureAlone says that a side takes sessions of one batch: see alone.go.
const featureAlone uint64 = 1 << 5

// featureDebts says that a side takes as many lanes for debts as for new data, and for backlog.
const featureDebts uint64 = 1 << 6

// Features of this version's links. A peer that requires others is refused.
const (
	featuresOptional        = featureForward | featureGone | featureCorrect | featureSeen | featureAlone | featureDebts
	featuresRequired uint64 = 0
)

func (m *Manager) hello() *wire.Hello {
	s := m.cfg.Self
	h := &wire.Hello{
		MinVersion: wire.MinVersion, MaxVersion: wire.MaxVersion,
		Number: s.Number, Name: s.Name, Mesh: s.Mesh, Data: s.Data,
		Optional: featuresOptional, Required: featuresRequired,
		Clock: time.Now().UnixMicro(), Boot: m.cfg.Boot, Software: m.cfg.Software,
	}
	if n := m.cfg.Limits.Connections; n > 1 {
		h.Optional |= featureStrands
		h.Connections = uint16(n)
	}
	return h
}

// greet exchanges hellos on a new control stream, as who dialled or as who was
// dialled, and gives the link that the connection serves. Who was dialled judges
// first and then waits for a ping: it comes when the other side has judged, too.
// A refusal travels as the reason of the close.
func (m *Manager) greet(ctx context.Context, qc *quic.Conn, expected *link) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	var stream *quic.Stream
	var err error
	if expected != nil {
		stream, err = qc.OpenStreamSync(ctx)
	} else {
		stream, err = qc.AcceptStream(ctx)
	}
	if err != nil {
		return nil, reading(err)
	}
	deadline, _ := ctx.Deadline()
	if err := stream.SetDeadline(deadline); err != nil {
		return nil, reading(err)
	}
	c := &conn{m: m, qc: qc, dialled: expected != nil, stream: stream,
		reader: wire.NewReader(stream, noBudget{}), writer: wire.NewWriter(stream, false)}
	if err := c.exchange(ctx, expected); err != nil {
		c.uncorrect()
		return nil, err
	}
	return c, reading(stream.SetDeadline(time.Time{}))
}

// exchange is greet's part on the stream.
func (c *conn) exchange(ctx context.Context, expected *link) error {
	if expected != nil {
		c.pool.id = rhumb.NewUUID()
		c.attach(expected.name)
		if err := c.writeHello(); err != nil {
			return err
		}
	}
	if err := c.readHello(expected); err != nil {
		return err
	}
	if expected == nil {
		c.attach(c.link.name)
	}
	if err := c.link.settleRivals(ctx, c); err != nil {
		return err
	}
	c.correct()
	if expected == nil {
		if err := c.writeHello(); err != nil {
			return err
		}
	}
	c.prepare()
	if expected == nil {
		return c.awaitPing()
	}
	return nil
}

func (c *conn) writeHello() error {
	h := c.m.hello()
	h.Pool = c.pool.id
	if err := c.writer.Write(h); err != nil {
		return reading(err)
	}
	return reading(c.writer.Flush())
}

func (c *conn) readHello(expected *link) error {
	f, err := c.reader.Next()
	if err != nil {
		if rhumb.KindOf(err) != rhumb.KindInternal { // not a fault of the network
			err = refusef("%v", err)
		}
		return reading(err)
	}
	if join, ok := f.(*wire.Join); ok && expected == nil {
		return &joining{join, c.stream}
	}
	theirs, ok := f.(*wire.Hello)
	if !ok {
		return brokenf("the first frame is %s, not a hello", f.Type())
	}
	c.boot, c.data, c.software = theirs.Boot, theirs.Data, theirs.Software
	if agreed, err := wire.Agree(c.m.hello(), theirs); err == nil {
		c.features = agreed.Features
	}
	c.pool.agree(c, theirs)
	c.link, err = c.m.judge(c.qc, theirs, expected)
	c.rebuilt = slices.ContainsFunc(c.m.cfg.Policy.Regions(), func(r configstore.Region) bool { return r.Name == theirs.Name && r.Rebuilds > 0 })
	return err
}

// ping tells the other side that its hello is accepted.
func (c *conn) ping(number uint64) error {
	if err := c.writer.Write(&wire.Ping{Number: number, Clock: time.Now().UnixMicro()}); err != nil {
		return reading(err)
	}
	return reading(c.writer.Flush())
}

func (c *conn) awaitPing() error {
	f, err := c.reader.Next()
	if err != nil {
		return reading(err)
	}
	p, ok := f.(*wire.Ping)
	if !ok {
		return brokenf("the second frame is %s, not a ping", f.Type())
	}
	c.control.pongs <- wire.Pong{Number: p.Number, PingClock: p.Clock}
	return nil
}

// judge decides whether a peer is who it says, and finds the link to it.
func (m *Manager) judge(qc *quic.Conn, theirs *wire.Hello, expected *link) (*link, error) {
	if _, err := wire.Agree(m.hello(), theirs); err != nil {
		return nil, refusef("%v", err)
	}
	id, err := certs.PeerOf(qc.ConnectionState().TLS)
	switch {
	case err != nil:
		return nil, refusef("%v", err)
	case id.Mesh != theirs.Mesh:
		return nil, refusef("the certificate of region %s is of mesh %s, its hello of mesh %s", theirs.Name, id.Mesh, theirs.Mesh)
	case id.Name != string(theirs.Name):
		return nil, refusef("a certificate of region %s is shown by who says that it is region %s", id.Name, theirs.Name)
	case expected != nil && expected.name != theirs.Name:
		return nil, refusef("region %s was dialled, region %s answers", expected.name, theirs.Name)
	}
	if owner, ok := m.cfg.Policy.Owner(theirs.Number); ok && owner.Gone {
		return nil, refuseRemoved(&owner, theirs)
	}
	if err := registered(m.cfg.Policy.Regions(), theirs); err != nil {
		return nil, err
	}
	l := m.link(theirs.Name)
	if l == nil || l.number != theirs.Number {
		return nil, refusef("region %s with number %d is not ready here yet", theirs.Name, theirs.Number)
	}
	return l, nil
}

// registered compares a hello with the documents of the configuration store.
func registered(regions []configstore.Region, theirs *wire.Hello) error {
	var doc *configstore.Region
	for i := range regions {
		r := &regions[i]
		switch {
		case r.Name == theirs.Name:
			doc = r
		case r.Number == theirs.Number:
			return refusef("region %s says that its number is %d, which belongs to region %s", theirs.Name, theirs.Number, r.Name)
		}
	}
	switch {
	case doc == nil:
		return refusef("region %s is not registered, as far as is known here", theirs.Name)
	case doc.Number != theirs.Number:
		return refusef("region %s says that its number is %d, it is registered as %d", theirs.Name, theirs.Number, doc.Number)
	case !doc.DataUUID.IsZero() && doc.DataUUID != theirs.Data:
		return refusef("region %s runs on data directory %s, it is registered with %s", theirs.Name, theirs.Data, doc.DataUUID)
	}
	return nil
}

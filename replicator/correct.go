package replicator

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// featureCorrect says that a side understands packets of package fec on the socket of
// its connections, and parity.
const featureCorrect uint64 = 1 << 3

// correctLabel names the key of a connection's correction (RFC 5705).
const correctLabel = "EXPORTER-rhumb-fec"

// observeEvery is of how many samples of a pool the correction of its path is told.
const observeEvery = 2

// CorrectionStatus tells about the forward error correction of a link. It is that of
// the path to the peer's address: all connections of the link share it.
type CorrectionStatus struct {
	Mode string `json:"mode"` // auto, off, or a fixed strength such as 20+4
	Code string `json:"code"` // in force from here to the peer: off or a strength
	// Loss is the share of packets from here that the path loses, without what full
	// queues drop and before anything is recovered.
	Loss float64 `json:"loss"`
	// Recovered are packets from here that the peer brought back, RecoveredHere those
	// from the peer that this region did, on all connections that the link had.
	Recovered     uint64 `json:"recovered,string"`
	RecoveredHere uint64 `json:"recovered_here,string"`
	// ParityBytes were sent besides the packets, on all of them.
	ParityBytes uint64 `json:"parity_bytes,string"`
}

// attach has this side understand what the peer wraps on the connection: it is done
// before this side says hello, and so before the peer may begin. A region that has no
// room for one more goes without. On a long path that is not known it asks at once whether
// it carries such packets, since warming waits for that.
func (c *conn) attach(peer rhumb.RegionName) {
	state := c.qc.ConnectionState().TLS
	secret, err := state.ExportKeyingMaterial(correctLabel, nil, fec.SecretSize)
	if err == nil {
		c.corrected, err = c.m.endpoint.socket.Attach(c.qc.RemoteAddr(), secret, c.dialled)
	}
	if err != nil {
		c.m.log.Warn("a connection goes without forward error correction", "remote", c.qc.RemoteAddr().String(), "err", err)
		return
	}
	if !c.m.cfg.Correction[peer].Off() && c.qc.ConnectionStats().MinRTT >= warmFrom {
		c.corrected.Ask()
	}
}

// correct begins to correct what is sent, once the peer's hello says that it can.
func (c *conn) correct() {
	if c.corrected == nil {
		return
	}
	if c.features&featureCorrect == 0 {
		c.uncorrect()
		return
	}
	c.corrected.Begin(c.m.cfg.Correction[c.link.name])
}

// uncorrect ends the correction of a connection that nobody uses any more.
func (c *conn) uncorrect() {
	if c.corrected != nil {
		c.corrected.Close()
	}
}

// observe tells the correction of the path how its connections did.
func (c *conn) observe(now time.Time, m *meter) {
	if c.corrected == nil {
		return
	}
	c.corrected.Observe(now, fec.Traffic{Sent: m.sent, Lost: m.lost, RTT: m.rtt, LeastRTT: m.leastTrip()})
	n := c.corrected.Stats()
	c.link.sums(&CorrectionStatus{Recovered: n.PeerCounts.Recovered, RecoveredHere: n.Counts.Recovered, ParityBytes: n.Sent.ParityBytes}, true)
	if on := !n.Code.Off(); on != c.correcting {
		c.correcting = on
		c.m.log.Info("forward error correction of the link changed", "peer_region", c.link.name, "code", n.Code.String(), "loss", n.Loss)
	}
}

// corrected adds up what correction did on the paths that a link had. A path's counts
// begin anew when nobody used it for a while.
type corrected struct {
	recovered, recoveredHere, parityBytes growing
}

// growing is the sum of a count that may begin anew.
type growing struct{ last, sum uint64 }

func (g *growing) take(n uint64) uint64 {
	if n < g.last {
		g.last = 0
	}
	g.sum += n - g.last
	g.last = n
	return g.sum
}

// sums puts the link's sums in the place of the path's counts.
func (l *link) sums(s *CorrectionStatus, connected bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := &l.corrected
	if !connected {
		s.Recovered, s.RecoveredHere, s.ParityBytes = g.recovered.sum, g.recoveredHere.sum, g.parityBytes.sum
		return
	}
	s.Recovered, s.RecoveredHere, s.ParityBytes = g.recovered.take(s.Recovered), g.recoveredHere.take(s.RecoveredHere), g.parityBytes.take(s.ParityBytes)
}

// correction tells about it.
func (c *conn) correction() CorrectionStatus {
	mode := c.m.cfg.Correction[c.link.name]
	out := CorrectionStatus{Mode: mode.String(), Code: fec.Code{}.String()}
	if c.corrected == nil {
		return out
	}
	st := c.corrected.Stats()
	out.Code, out.Loss, out.ParityBytes = st.Code.String(), st.Loss, st.Sent.ParityBytes
	out.Recovered, out.RecoveredHere = st.PeerCounts.Recovered, st.Counts.Recovered
	return out
}

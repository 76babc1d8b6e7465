package replicator

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Check is one thing that a link needs, looked at.
type Check struct {
	Name   string // registered, address, own certificate, certificate, link, clock, version, path
	Target string // the address, where there are several
	OK     bool
	Detail string
	Next   string // what to do if it is not well
}

// Times of a check.
const (
	checkTimeout = 3 * time.Second
	probeTimeout = time.Second
	// verdictTime is how long a peer is given to refuse this side's certificate, which
	// it does after the handshake.
	verdictTime = 300 * time.Millisecond
	// expiresSoon is how long before its end a certificate is no good.
	expiresSoon = 30 * 24 * time.Hour
	// maxClock is by how much clocks of two regions may differ: more of it makes times
	// of records, retention and lag say little.
	maxClock = 2 * time.Second
)

// Check looks at all that a link to a region needs: whether it is registered, each of
// its addresses, both certificates, the connection, the clocks and the versions. It
// dials each address anew, and leaves the link as it is. Errors are of kind not found
// if no such region is known.
func (m *Manager) Check(ctx context.Context, peer rhumb.RegionName) ([]Check, error) {
	l := m.link(peer)
	if l == nil {
		return nil, m.noLink(peer)
	}
	regions := m.cfg.Policy.Regions()
	i := slices.IndexFunc(regions, func(r configstore.Region) bool { return r.Name == peer })
	if i < 0 {
		return nil, m.noLink(peer)
	}
	geo := regions[i].Geo
	checks := []Check{{Name: "registered", OK: len(geo) > 0, Detail: fmt.Sprintf("number %d, %d geo addresses", regions[i].Number, len(geo)),
		Next: "region " + string(peer) + " has told no geo address: give its geo listener an advertise address and restart it"}}
	found := make([][]Check, len(geo))
	var wg sync.WaitGroup
	for i, addr := range geo {
		wg.Go(func() { found[i] = m.checkAddress(ctx, peer, addr) })
	}
	wg.Wait()
	for _, c := range found {
		checks = append(checks, c...)
	}
	checks = append(checks, m.checkOwn())
	return append(checks, l.checkLive()...), nil
}

// checkAddress resolves and dials one address.
func (m *Manager) checkAddress(ctx context.Context, peer rhumb.RegionName, addr string) []Check {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	out := Check{Name: "address", Target: addr}
	to, err := m.cfg.Resolve(ctx, peer, addr)
	if err != nil {
		out.Detail, out.Next = "it cannot be resolved: "+err.Error(), "correct the name in DNS, or what region "+string(peer)+" advertises"
		return []Check{out}
	}
	m.mu.Lock()
	e := m.endpoint
	m.mu.Unlock()
	if e == nil {
		out.Detail, out.Next = "links are starting", "try again in a moment"
		return []Check{out}
	}
	began := time.Now()
	qc, err := e.dialTo(ctx, peer, to)
	if err == nil {
		defer func() { _ = qc.CloseWithError(codeClosing, "") }()
		out.OK, out.Detail = true, fmt.Sprintf("%s answers in %s", to, time.Since(began).Round(time.Millisecond))
		return []Check{out, certificateOf(qc, addr)}
	}
	var r *refusal
	if errors.As(reading(err), &r) {
		out.OK, out.Detail = true, to.String()+" answers"
		return []Check{out, {Name: "certificate", Target: addr, Detail: r.reason, Next: certificateNext}}
	}
	out.Detail, out.Next = m.whyUnreachable(to, err)
	return []Check{out}
}

const certificateNext = "both regions need certificates of this mesh's CA, each of its own region: 'rhumb certs show' on both hosts, 'rhumb certs issue NAME --force' for a new one"

// certificateOf judges what the peer showed, and whether it takes what it was shown.
func certificateOf(qc *quic.Conn, addr string) Check {
	out := Check{Name: "certificate", Target: addr, Next: certificateNext}
	select {
	case <-qc.Context().Done():
		if err := reading(context.Cause(qc.Context())); !quiet(err) && !errors.Is(err, errPeerStops) {
			out.Detail = "the peer refuses: " + err.Error()
			return out
		}
	case <-time.After(verdictTime + 2*qc.ConnectionStats().SmoothedRTT):
	}
	cs := qc.ConnectionState().TLS
	id, err := certs.PeerOf(cs)
	if err != nil || len(cs.PeerCertificates) == 0 {
		out.Detail = fmt.Sprint("it shows none that can be used: ", err)
		return out
	}
	return expiry(out, cs.PeerCertificates[0], fmt.Sprintf("region %s of mesh %s", id.Name, id.Mesh))
}

// checkOwn looks at this region's own certificate.
func (m *Manager) checkOwn() Check {
	out := Check{Name: "own certificate", Next: "put a new certificate into the file, no restart is needed: 'rhumb certs issue " + string(m.cfg.Self.Name) + " --force'"}
	now := m.cfg.Certs.Current()
	if err := m.cfg.Certs.Err(); err != nil {
		out.Detail = "its files cannot be used, the one before stays: " + err.Error()
		return out
	}
	if err := now.Begun(); err != nil {
		out.Detail = err.Error()
		return out
	}
	return expiryAt(out, now.Expiry(), "this region's")
}

func expiry(out Check, leaf *x509.Certificate, who string) Check {
	return expiryAt(out, leaf.NotAfter, who)
}

func expiryAt(out Check, end time.Time, who string) Check {
	left := time.Until(end)
	out.OK = left > expiresSoon
	out.Detail = fmt.Sprintf("%s, valid until %s", who, end.UTC().Format(time.RFC3339))
	if !out.OK {
		out.Detail += fmt.Sprintf(", which is in %s", left.Round(time.Hour))
	}
	return out
}

// whyUnreachable asks the address in another way for what a QUIC handshake does not
// tell: a connected socket hears of closed ports and missing routes.
func (m *Manager) whyUnreachable(to net.Addr, err error) (detail, next string) {
	detail = "no answer: " + err.Error()
	next = "UDP is dropped on the way, or nothing runs there: look whether the region runs, and at firewalls on both hosts and between them, for UDP to that port and back"
	udp, ok := to.(*net.UDPAddr)
	if ok && unlike(m.cfg.PacketConn.LocalAddr(), udp) {
		return fmt.Sprintf("the geo listener here is bound to %s, from which no packet gets to an address of the other family of IP", m.cfg.PacketConn.LocalAddr()),
			"bind the geo listener to an address of both, such as [::]:7650, or have the peer advertise one of this listener's family"
	}
	if _, real := m.cfg.PacketConn.(*net.UDPConn); !ok || !real {
		return detail, next
	}
	conn, err := net.DialUDP("udp", nil, udp)
	if err == nil {
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(probeTimeout))
		answer := make([]byte, 64)
		for range 3 {
			if _, err = conn.Write([]byte{0}); err != nil {
				break
			}
			_ = conn.SetReadDeadline(time.Now().Add(probeTimeout / 3))
			if _, err = conn.Read(answer); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
				break
			}
		}
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused: the host is there, and nothing listens on that UDP port", "start the region, or correct the port that it advertises"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it", "correct the address, or the route from this host"
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return "this host may not send UDP there", "open this host's own firewall for UDP to it"
	}
	return detail, next
}

// unlike reports whether a socket bound to one family of IP was to reach an address of
// the other one. [::] takes both.
func unlike(own net.Addr, to *net.UDPAddr) bool {
	bound, ok := own.(*net.UDPAddr)
	if !ok || bound.IP == nil || bound.IP.Equal(net.IPv6unspecified) {
		return false
	}
	return (bound.IP.To4() == nil) != (to.IP.To4() == nil)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// checkLive looks at the link as it stands.
func (l *link) checkLive() []Check {
	l.mu.Lock()
	state, since, failure, conn, wanted := l.health.state, l.health.since, l.health.err, l.conn, l.wanted()
	l.mu.Unlock()
	out := Check{Name: "link", OK: state == LinkConnected || !wanted, Detail: fmt.Sprintf("%s since %s", state, since.UTC().Format(time.RFC3339)),
		Next: "see what the failing checks above say; the last error here and in the peer's log names the reason"}
	if failure != nil && !out.OK {
		out.Detail += "; last error: " + failure.Error()
	}
	if conn == nil {
		return []Check{out}
	}
	offset, at := conn.control.clockOffset()
	clock := Check{Name: "clock", OK: !at.IsZero() && offset.Abs() <= maxClock, Next: "set the clocks of both hosts, with NTP; then 'rhumb link check' again"}
	if clock.Detail = fmt.Sprintf("the peer's is %s ahead of this one", offset.Round(time.Microsecond)); at.IsZero() {
		clock.Detail, clock.Next = "not measured yet", "try again in a moment"
	}
	version := Check{Name: "version", OK: true, Detail: "the peer runs " + conn.software + ", this region " + l.m.cfg.Software}
	if conn.software == "" {
		version.Detail = "the peer does not tell, this region runs " + l.m.cfg.Software
	}
	n, path := conn.pool.report()
	pool := Check{Name: "path", OK: true, Detail: fmt.Sprintf("%d of up to %d connections, round trip %s, %.2f %% of packets lost",
		n, conn.pool.most, conn.qc.ConnectionStats().SmoothedRTT.Round(time.Millisecond), 100*path.loss)}
	return []Check{out, clock, version, pool}
}

// Failed reports whether any of them is not well.
func Failed(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
}

// String writes a check as a line.
func (c Check) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %v %s", c.Name, c.Target, c.OK, c.Detail))
}

package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

// Direction names one way through a relay.
type Direction int

// The two ways, and both together.
const (
	Both Direction = iota
	AToB
	BToA
)

// Config is what a relay needs. All fields but the endpoints may be zero.
type Config struct {
	// A and B are the UDP addresses of the endpoints: where each of them listens
	// and sends from.
	A, B string
	// FrontA and FrontB are where the relay listens for A and for B. Default
	// 127.0.0.1:0, a free port of the loopback interface.
	FrontA, FrontB string
	// Seed makes the luck of both directions.
	Seed uint64
	// Settings are those of both directions at the start.
	Settings Settings
}

// Relay carries datagrams between two UDP endpoints.
type Relay struct {
	fronts    [2]*side // of A, of B: fixed by Listen
	endpoints [2]*net.UDPAddr
	lines     [2]*Line // A->B, B->A
	close     sync.Once
	closeErr  error
}

// Listen resolves the endpoints and opens both fronts. Nothing is carried
// before Run.
func Listen(cfg Config) (*Relay, error) {
	r := &Relay{}
	endpoints := [2]string{cfg.A, cfg.B}
	for i, front := range [2]string{cfg.FrontA, cfg.FrontB} {
		if err := r.open(i, front, endpoints[i]); err != nil {
			return nil, errors.Join(fmt.Errorf("relay: %w", err), r.Close())
		}
	}
	for i := range r.lines {
		to := 1 - i // line 0 leads from A to B: out of the front of B, to endpoint B
		r.lines[i] = newLine(cfg.Seed, uint64(i), cfg.Settings, func(datagrams [][]byte) {
			r.fronts[to].sendAll(datagrams, r.endpoints[to])
		})
	}
	return r, nil
}

// socketBuffer is what the relay asks the kernel for: a burst of a fast sender
// must not be lost in the relay, where no setting says so.
const socketBuffer = 4 << 20

func (r *Relay) open(i int, front, endpoint string) error {
	if front == "" {
		front = "127.0.0.1:0"
	}
	addr, err := net.ResolveUDPAddr("udp", front)
	if err != nil {
		return err
	}
	if r.endpoints[i], err = net.ResolveUDPAddr("udp", endpoint); err != nil {
		return err
	}
	conn, err := net.ListenUDP("udp", addr)
	if err != nil {
		return err
	}
	r.fronts[i] = &side{UDPConn: conn}
	askMerged(conn)
	// The kernel may grant less; then bursts are lost, as on a real network.
	_ = r.fronts[i].SetReadBuffer(socketBuffer)
	_ = r.fronts[i].SetWriteBuffer(socketBuffer)
	return nil
}

// FrontA is the address that A must use for B.
func (r *Relay) FrontA() net.Addr { return r.fronts[0].LocalAddr() }

// FrontB is the address that B must use for A.
func (r *Relay) FrontB() net.Addr { return r.fronts[1].LocalAddr() }

// Set changes one or both directions from now on.
func (r *Relay) Set(d Direction, s Settings) {
	for i, l := range r.lines {
		if d.covers(i) {
			l.Set(s)
		}
	}
}

// Change applies a list of settings (see [Settings.With]) to one or both
// directions; what it does not name stays. On an error nothing changes.
func (r *Relay) Change(d Direction, list string) error {
	var changed [2]Settings
	for i, l := range r.lines {
		var err error
		if changed[i], err = l.Settings().With(list); err != nil {
			return err
		}
	}
	for i, l := range r.lines {
		if d.covers(i) {
			l.Set(changed[i])
		}
	}
	return nil
}

func (d Direction) covers(line int) bool { return d == Both || int(d)-1 == line }

// Settings gives the settings of the direction A->B and of B->A.
func (r *Relay) Settings() (aToB, bToA Settings) {
	return r.lines[0].Settings(), r.lines[1].Settings()
}

// Stats gives the counts of the direction A->B and of B->A.
func (r *Relay) Stats() (aToB, bToA LineStats) { return r.lines[0].Stats(), r.lines[1].Stats() }

// Run carries datagrams until the context ends, then closes the relay.
func (r *Relay) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range r.fronts {
		wg.Go(func() { cancel(r.read(i)) })
		wg.Go(func() { _ = r.lines[i].Run(ctx) })
	}
	<-ctx.Done()
	err := r.Close()
	wg.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, net.ErrClosed) {
		return cause
	}
	return err
}

// read puts what arrives on a front on that direction's line. A read error
// that is not the end of the socket is the echo of a dead endpoint (an ICMP
// message) and is passed over.
func (r *Relay) read(i int) error {
	buf, oob := make([]byte, 64<<10), make([]byte, 128)
	for {
		if err := r.fronts[i].receive(buf, oob, r.lines[i].Send); errors.Is(err, net.ErrClosed) {
			return err
		}
	}
}

// Close closes both fronts, which ends Run. It may be called at any time, any
// number of times.
func (r *Relay) Close() error {
	r.close.Do(func() {
		for _, c := range r.fronts {
			if c != nil {
				r.closeErr = errors.Join(r.closeErr, c.Close())
			}
		}
	})
	return r.closeErr
}

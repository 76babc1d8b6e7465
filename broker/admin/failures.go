package admin

import (
	"net/netip"
	"sync"
	"time"
)

// Bounds of failed logins. A wrong token costs its address one of failureBurst
// tries; one comes back each failureRefill.
const (
	failureBurst     = 20
	failureRefill    = 3 * time.Second
	failureAddresses = 4096 // addresses of which failures are remembered, twice
)

// failures counts wrong tokens per address, so that nobody can try many, or fill
// the log. Memory is bounded by two generations of addresses: when one is full or
// all of it has been forgiven, the older one is dropped.
type failures struct {
	mu       sync.Mutex
	young    map[netip.Addr]strikes
	old      map[netip.Addr]strikes
	youngest time.Time // when young was begun
}

// strikes are an address's failures that are not forgiven: count of them at a time.
type strikes struct {
	count int
	at    time.Time
}

// left gives what is not forgiven by now.
func (s strikes) left(now time.Time) int {
	return max(0, s.count-int(now.Sub(s.at)/failureRefill))
}

// addressOf gives what is counted for a remote address: the IPv4 address, or the
// IPv6 network of 64 bits, which one host has whole.
func addressOf(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{} // a pipe or unix socket: all are one
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// wait gives how long an address has to wait before it may try again, 0 if not.
func (f *failures) wait(a netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(a)
	over := s.left(now) - failureBurst + 1
	if over <= 0 {
		return 0
	}
	return time.Duration(over)*failureRefill - now.Sub(s.at)%failureRefill
}

// add counts a failure.
func (f *failures) add(a netip.Addr, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(a)
	if f.young == nil || len(f.young) >= failureAddresses || now.Sub(f.youngest) > failureBurst*failureRefill {
		f.old, f.young, f.youngest = f.young, map[netip.Addr]strikes{}, now
	}
	left := s.left(now)
	at := now
	if left > 0 { // what has begun to be forgiven goes on
		at = now.Add(-(now.Sub(s.at) % failureRefill))
	}
	f.young[a] = strikes{count: left + 1, at: at}
}

func (f *failures) of(a netip.Addr) strikes {
	if s, known := f.young[a]; known {
		return s
	}
	return f.old[a]
}

// size is how many addresses are remembered.
func (f *failures) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.young) + len(f.old)
}

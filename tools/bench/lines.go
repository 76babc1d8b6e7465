package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const (
	lineRate  = 2000             // records per second of the live phase
	lineSize  = 1024             // bytes of a record
	lineLimit = 45 * time.Second // for copies to arrive after the last record was produced
	// cutAfter is when records have come for a while.
	cutAfter = 5 * time.Second
	// afterCut is how long records go on after the line is back.
	afterCut = 25 * time.Second
)

// ownNetwork says, in the environment, that the process has a network namespace of its
// own.
const ownNetwork = "RHUMB_BENCH_NETWORK"

// checkNetwork tells what is missing for lines.
func checkNetwork() error {
	if os.Geteuid() != 0 {
		return errors.New("bad lines are made of network namespaces and TUN devices: only root may do that")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("bad lines need the program ip: apt-get install iproute2")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("bad lines need TUN devices: %w: modprobe tun", err)
	}
	return nil
}

// inOwnNetwork runs this program again in a network namespace of its own, so that
// nothing of the machine's network changes, and gives its exit code.
func inOwnNetwork(ctx context.Context) (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownNetwork+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM, Setpgid: true}
	interrupts := make(chan os.Signal, 2) // the first ends it in order, the second at once
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("a network namespace: %w", err)
	}
	go func() {
		for s := range interrupts {
			_ = cmd.Process.Signal(s)
		}
	}()
	if ctx.Err() != nil { // interrupted before signals went on to it
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	return 0, err
}

// runLines lets the systems take turns on each line. What fails on one does not end
// the others.
func runLines(ctx context.Context, o *options) error {
	results, err := os.OpenFile(o.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer results.Close()
	var failed error
	for range o.rounds {
		for _, l := range o.lines {
			for _, name := range o.systems {
				if err := runLine(ctx, o, l, name, results); err != nil {
					err = fmt.Errorf("%s, %s: %w", name, l.name, err)
					fmt.Println(err)
					failed = errors.Join(failed, err)
				}
				if ctx.Err() != nil {
					return failed
				}
			}
		}
	}
	return failed
}

// runLine starts a system on a line, does the phases and stops it.
func runLine(ctx context.Context, o *options, l line, name string, results *os.File) error {
	dir, err := os.MkdirTemp(o.dir, "bench-"+name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	own := *o
	regions := 2
	if l.shared {
		regions = 3
	}
	if own.net, err = newNetwork(regions); err != nil {
		return err
	}
	defer own.net.close()
	own.net.joint.set(l)
	s, err := newSystem(name, &own)
	if err != nil {
		return err
	}
	three, isRhumb := s.(*rhumb)
	if l.shared && !isRhumb {
		return nil // only links of Rhumb share a line here
	} else if l.shared {
		three.third = true
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	p := &processes{dir: dir, net: own.net}
	defer p.stop()
	m := &machine{options: &own, name: name, system: s, processes: p, results: results, text: payload()}
	if err := s.start(ctx, p); err != nil {
		return fmt.Errorf("start: %w%s", err, p.lastWords())
	}
	if err := m.overLine(ctx, l); err != nil {
		return fmt.Errorf("%w%s", err, p.lastWords())
	}
	return nil
}

// overLine does the phases of a line.
func (m *machine) overLine(ctx context.Context, l line) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if l.shared {
		return m.fair(ctx, l)
	}
	if err := m.liveOverLine(ctx, l); err != nil || l.cut {
		return err
	}
	load := m.lineLoad()
	load.records, load.time = m.options.records, lineLimit
	r, err := m.copied(ctx, "line-copy", load)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return m.report(ctx, l.name+" copy", r)
}

// lineLoad is what both phases have in common.
func (m *machine) lineLoad() *load {
	return &load{size: lineSize, lanes: m.system.lanes(), pending: m.system.pending(), run: rand.Uint32(), text: m.text, limit: lineLimit}
}

// liveOverLine has records come at a rate, and cuts the line meanwhile if that is the
// line's fault.
func (m *machine) liveOverLine(ctx context.Context, l line) error {
	load := m.lineLoad()
	load.rate, load.time = lineRate, m.options.seconds
	back := make(chan time.Time, 1)
	if l.cut {
		load.time = cutAfter + cutTime + afterCut
		load.begun = func() {
			time.AfterFunc(cutAfter, func() { m.options.net.joint.cut(true) })
			time.AfterFunc(cutAfter+cutTime, func() {
				m.options.net.joint.cut(false)
				back <- time.Now()
			})
		}
	}
	r, err := m.copied(ctx, "line-live", load)
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	if l.cut {
		r.Level = max(0, r.lastLate.Sub(<-back).Seconds())
	}
	return m.report(ctx, l.name+" live", r)
}

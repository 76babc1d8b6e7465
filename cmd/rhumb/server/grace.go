package server

import (
	"context"
	"fmt"
	"time"
)

// lastWait is how long what the end of the grace cut off may take to close.
const lastWait = 2 * time.Second

// RunInTime is Run for a process that must end: if the region has not stopped
// shortly after its grace, because its disk does not answer for example, it says
// what it waits for and returns with an error, while goroutines still run. The
// process must exit then. That is as safe as a kill: what was acknowledged is in
// the log, and the next start recovers it.
func (s *Server) RunInTime(ctx context.Context) error {
	ended := make(chan error, 1) // one answer
	go func() { ended <- s.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit := s.cfg.ShutdownGrace.Std() + lastWait
	overdue := time.NewTimer(limit)
	defer overdue.Stop()
	select {
	case err := <-ended:
		return err
	case <-overdue.C:
	}
	err := fmt.Errorf("not stopped within the grace of %s: %s does not end; what was acknowledged is on disk and is recovered at the next start",
		s.cfg.ShutdownGrace.Std(), s.parts.current())
	s.log.Error("region does not stop in time, the process ends", "waiting_for", s.parts.current(), "grace", s.cfg.ShutdownGrace.Std())
	return err
}

// current names the part whose turn it is to stop, or was last.
func (p *parts) current() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopping == "" {
		return "a part that was being opened"
	}
	return p.stopping
}

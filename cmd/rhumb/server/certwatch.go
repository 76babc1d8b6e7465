package server

import (
	"context"
	"fmt"
	"time"
)

// certificateCheck is how often certificates are looked at for their end: who has
// 30 days learns of it in time.
const certificateCheck = 12 * time.Hour

// watchCertificates tells the log of certificates that end soon or cannot be used,
// at the start and from time to time, until ctx ends.
func (s *Server) watchCertificates(ctx context.Context) error {
	tick := time.NewTicker(certificateCheck)
	defer tick.Stop()
	for {
		s.certificateProblems(func(part, state, format string, args ...any) {
			s.log.Warn(state, "part", part, "problem", fmt.Sprintf(format, args...))
		})
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

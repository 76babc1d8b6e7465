package server

import (
	"context"
	"log/slog"
)

// untilKilled logs until the server is killed: a process that was killed says
// nothing more, and what its parts notice then is no news to anybody.
type untilKilled struct {
	slog.Handler
	killed <-chan struct{}
}

// Enabled refuses everything after the kill.
func (h untilKilled) Enabled(ctx context.Context, level slog.Level) bool {
	select {
	case <-h.killed:
		return false
	default:
		return h.Handler.Enabled(ctx, level)
	}
}

// WithAttrs and WithGroup keep the silence.
func (h untilKilled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untilKilled{h.Handler.WithAttrs(attrs), h.killed}
}

// WithGroup: see WithAttrs.
func (h untilKilled) WithGroup(name string) slog.Handler {
	return untilKilled{h.Handler.WithGroup(name), h.killed}
}

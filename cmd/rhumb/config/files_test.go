package config

import "testing"

// TestConnectionsFitTheFiles: clients get what a region can spare, at least one
// connection and never more than the file says.
func TestConnectionsFitTheFiles(t *testing.T) {
	for _, c := range []struct {
		files uint64
		want  int
	}{{0, 10000}, {1 << 62, 10000}, {1 << 20, 10000}, {14096, 10000}, {14095, 9999}, {4096, 2048}, {1024, 512}, {200, 100}, {1, 1}} {
		cfg := Defaults()
		lowered := cfg.FitFiles(c.files)
		if cfg.Limits.Connections != c.want || lowered != (c.want < 10000) {
			t.Errorf("%d files: %d connections (lowered %v), want %d", c.files, cfg.Limits.Connections, lowered, c.want)
		}
	}
	cfg := Defaults()
	cfg.Limits.Connections = 50
	if cfg.FitFiles(200) || cfg.Limits.Connections != 50 {
		t.Errorf("50 connections became %d", cfg.Limits.Connections)
	}
}

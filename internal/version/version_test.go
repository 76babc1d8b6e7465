package version

import (
	"runtime/debug"
	"testing"
)

func TestFromBuildInfo(t *testing.T) {
	checkout := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
		{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}}}
	for _, c := range []struct {
		name    string
		info    *debug.BuildInfo
		release string
		short   string
	}{
		{"no module", nil, "", "devel"},
		{"release without module", nil, "v1.0.0", "v1.0.0"},
		{"checkout", checkout, "", "devel+0123456789ab.modified"},
		{"release", checkout, "v1.2.3", "v1.2.3+0123456789ab.modified"},
		{"installed module", &debug.BuildInfo{Main: debug.Module{Version: "v1.1.0"}}, "", "v1.1.0"},
		{"unnamed", &debug.BuildInfo{}, "", "devel"},
	} {
		if got := from(c.info, c.release).Short(); got != c.short {
			t.Errorf("%s: %q, want %q", c.name, got, c.short)
		}
	}
}

func TestGetNamesTheToolchain(t *testing.T) {
	if i := Get(); i.Go == "" || i.Platform == "" || i.Version == "" {
		t.Errorf("incomplete: %+v", i)
	}
}

// Package version says which build of Rhumb is running. It reads only what the
// Go linker wrote into the binary.
package version

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// release is the version of a release build, set by the linker with
// -X github.com/rhumbmq/rhumb/internal/version.release=v1.2.3.
var release string

// Info is what is known of a build. Its JSON form is part of the admin API.
type Info struct {
	Version  string `json:"version"`        // of the release, of the module, or "devel"
	Commit   string `json:"commit"`         // full hash, empty if built outside of a checkout
	Time     string `json:"time,omitempty"` // of the commit, RFC 3339
	Modified bool   `json:"modified"`       // the checkout had uncommitted changes
	Go       string `json:"go"`             // such as "go1.26.8"
	Platform string `json:"platform"`       // such as "linux/amd64"
}

// Get reads the build info of the running binary.
func Get() Info {
	b, _ := debug.ReadBuildInfo()
	return from(b, release)
}

// from makes an Info of build info, which is nil in a binary without modules.
func from(b *debug.BuildInfo, release string) Info {
	i := Info{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if b == nil {
		if i.Version == "" {
			i.Version = "devel"
		}
		return i
	}
	if i.Version == "" {
		i.Version = strings.Trim(b.Main.Version, "()")
	}
	if i.Version == "" {
		i.Version = "devel"
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.Time = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	return i
}

// Short gives the version with the first digits of the commit, for log lines.
func (i Info) Short() string {
	if len(i.Commit) < 12 {
		return i.Version
	}
	s := i.Version + "+" + i.Commit[:12]
	if i.Modified {
		s += ".modified"
	}
	return s
}

package admin

import (
	"net/http"
	httppprof "net/http/pprof"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Profiles of the process, at the addresses that `go tool pprof` knows. They cost
// nothing until somebody asks.
const (
	debugPrefix    = "/debug/pprof"
	maxProfileTime = 60 * time.Second
)

// recorded are the profiles that take time; all others tell what is.
var recorded = map[string]http.HandlerFunc{"profile": httppprof.Profile, "trace": httppprof.Trace}

// debugProfile answers GET /debug/pprof/{profile}: one of those of [pprof.Profiles],
// profile (of CPU time, 30 s) or trace (1 s), for the seconds asked for.
func (s *Server) debugProfile(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("profile")
	if text := r.URL.Query().Get("seconds"); text != "" {
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > int(maxProfileTime/time.Second) {
			return rhumb.Errorf(rhumb.KindInvalid, "seconds %q: a whole number of 1 to %.0f", text, maxProfileTime.Seconds())
		}
	}
	if handler, ok := recorded[name]; ok {
		handler(w, r)
		return nil
	}
	if pprof.Lookup(name) == nil {
		return rhumb.Errorf(rhumb.KindNotFound, "no profile %q: there are %s", name, strings.Join(profileNames(), ", "))
	}
	httppprof.Handler(name).ServeHTTP(w, r)
	return nil
}

func profileNames() []string {
	var names []string
	for name := range recorded {
		names = append(names, name)
	}
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

//go:build race

package bubble

import (
	"runtime"
	"sync"
)

var (
	mu      sync.Mutex
	running int // bubbles
	before  int // how many processors the process used
)

// alone takes all processors but one from the process, until the last of those that
// called it has called what it returns.
func alone() (end func()) {
	mu.Lock()
	defer mu.Unlock()
	if running++; running == 1 {
		before = runtime.GOMAXPROCS(1)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if running--; running == 0 {
			runtime.GOMAXPROCS(before)
		}
	}
}

package kafka

import (
	"sync"
	"sync/atomic"
)

// maxTogether bounds the topics of one request that are worked on at the same time.
// Each waits for flushes of the log, which all that wait share.
const maxTogether = 256

// together calls fn for each number below n, several at the same time.
func together(n int, fn func(int)) {
	if n == 1 {
		fn(0)
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, maxTogether) {
		wg.Go(func() {
			for i := next.Add(1) - 1; int(i) < n; i = next.Add(1) - 1 {
				fn(int(i))
			}
		})
	}
	wg.Wait()
}

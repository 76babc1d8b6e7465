package replicator

import "context"

// receiveBudget gives a frame reader the node's budget. Waiting for it stops the
// reading of one lane; windows are granted so that a few stuck sessions do not
// use it up.
type receiveBudget struct {
	ctx  context.Context
	gate *gate
}

func (b receiveBudget) Reserve(n int) error { return b.gate.acquire(b.ctx, int64(n), fresh) }
func (b receiveBudget) Release(n int)       { b.gate.release(int64(n)) }

// noBudget is of a stream that must not carry batches.
type noBudget struct{}

func (noBudget) Reserve(int) error { return brokenf("a batch where none belongs") }
func (noBudget) Release(int)       {}

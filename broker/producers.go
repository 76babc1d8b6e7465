package broker

import (
	"errors"
	"sync/atomic"

	"github.com/rhumbmq/rhumb/configstore"
)

// ErrShut refuses producers in a region that takes none at all: it drains, or was
// removed from the mesh.
var ErrShut = errors.New("broker: no producers")

// producers is the door for what clients publish. It may be shut for the whole
// region, which stops nothing that has passed it.
type producers struct {
	why    atomic.Pointer[error] // nil: open
	inside atomic.Int64          // batches that passed, or are about to be refused
}

// enter lets a batch in, until leave, or says why not. It counts before it looks:
// who shut the door and then sees nobody inside knows that nobody comes any more.
func (p *producers) enter() error {
	p.inside.Add(1)
	if why := p.why.Load(); why != nil {
		p.inside.Add(-1)
		return *why
	}
	return nil
}

func (p *producers) leave() { p.inside.Add(-1) }

// RefuseProducers has everything that clients publish refused with an error, which
// wraps [ErrShut]; nil lets them in again. What comes over links is none of its business.
func (b *Broker) RefuseProducers(why error) {
	if why == nil {
		b.producers.why.Store(nil)
		return
	}
	b.producers.why.Store(&why)
}

// left gives why nothing is made here any more, nil while the region is in the mesh: a topic
// of a removed region would be in no other one. One that drains makes topics as others do.
func (b *Broker) left() error {
	if why := b.producers.why.Load(); why != nil && errors.Is(*why, configstore.ErrRemoved) {
		return *why
	}
	return nil
}

// Producing gives how many batches of clients are on their way into the log. After
// [Broker.RefuseProducers], once it was 0 nothing comes any more.
func (b *Broker) Producing() int64 { return b.producers.inside.Load() }

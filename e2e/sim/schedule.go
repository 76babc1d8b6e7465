package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/internal/relay"
)

// action is a kind of fault, or of an operator's deed.
type action string

const (
	actLink     action = "link"     // other settings for one direction between a and b
	actCut      action = "cut"      // a and b are cut off from each other, both ways
	actHeal     action = "heal"     // a and b reach each other again
	actCrash    action = "crash"    // a loses power: what was not synced is lost, torn or reordered
	actStop     action = "stop"     // a stops cleanly
	actStart    action = "start"    // a starts
	actRecreate action = "recreate" // a topic is deleted in a, and created again at once in b
	actTrim     action = "trim"     // records of a topic are deleted in a
	actBackup   action = "backup"   // a's data directory is copied while it runs
	actRestore  action = "restore"  // a crashes, and its data directory is replaced by that copy
	actShape    action = "shape"    // the topology becomes another one of the plan's
	actRebuild  action = "rebuild"  // a crashes, loses its disk, and comes back from nothing under the same name
)

// event is one step of a schedule.
type event struct {
	at       time.Duration
	do       action
	a, b     int // regions
	topic    int
	settings relay.Settings
}

func (e event) String() string {
	return fmt.Sprintf("%8s %-8s a=%d b=%d topic=%d %v", e.at.Round(time.Millisecond), e.do, e.a, e.b, e.topic, e.settings)
}

// plan says which faults a run has.
type plan struct {
	regions, topics int
	length          time.Duration // faults happen within it; what follows is for healing
	every           time.Duration // mean time between events
	weights         map[action]int
	shapes          []shape // the topology at first, and others for actShape; none: a full mesh
}

// ordinary is the plan of most seeds: everything that a mesh must get over
// without an operator.
var ordinary = plan{
	regions: 3, topics: 3, length: 8 * time.Minute, every: 12 * time.Second,
	weights: map[action]int{actLink: 8, actCut: 5, actCrash: 5, actStop: 2, actRecreate: 2, actTrim: 2},
}

// disasters adds what needs an operator, or leaves a life incomplete for good.
var disasters = plan{
	regions: 3, topics: 2, length: 8 * time.Minute, every: 15 * time.Second,
	weights: map[action]int{actLink: 5, actCut: 4, actCrash: 4, actBackup: 3, actRestore: 2, actRebuild: 2},
}

// restores is the plan of regions that come back with old copies again and again,
// and write on: what an operator has to resolve.
var restores = plan{
	regions: 3, topics: 2, length: 8 * time.Minute, every: 15 * time.Second,
	weights: map[action]int{actLink: 4, actCut: 3, actCrash: 2, actBackup: 4, actRestore: 5},
}

// paths is the plan of five regions whose records have several ways, or one over
// relays: shapes[0] at first.
func pathsPlan(shapes []shape) plan {
	p := plan{
		regions: 5, topics: 2, length: 5 * time.Minute, every: 8 * time.Second, shapes: shapes,
		weights: map[action]int{actLink: 8, actCut: 8, actCrash: 6, actStop: 2, actRecreate: 1},
	}
	if len(shapes) > 1 {
		p.weights[actShape] = 6
	}
	return p
}

// schedule lays out the events of a seed. It depends on nothing else, so a
// failing seed replays the same faults. Each cut, crash and stop is followed by
// its healing after a while, which may be very short.
func (p plan) schedule(seed uint64) []event {
	rng := rand.New(rand.NewPCG(seed, 0x7363686564))
	deck := p.deck()
	var events []event
	for at := p.pause(rng); at < p.length; at += p.pause(rng) {
		e := event{at: at, do: deck[rng.IntN(len(deck))], a: rng.IntN(p.regions), topic: rng.IntN(p.topics)}
		e.b = (e.a + 1 + rng.IntN(p.regions-1)) % p.regions
		after := event{at: at + p.outage(rng), a: e.a, b: e.b}
		switch e.do {
		case actLink:
			e.settings = randomPath(rng)
		case actCut:
			after.do = actHeal
		case actCrash, actStop, actRestore, actRebuild:
			after.do = actStart
		}
		events = append(events, e)
		if after.do != "" {
			events = append(events, after)
		}
	}
	sortEvents(events)
	return events
}

// deck holds each action as often as it weighs, in a fixed order.
func (p plan) deck() []action {
	var deck []action
	for _, a := range []action{actLink, actCut, actCrash, actStop, actRecreate, actTrim, actBackup, actRestore, actRebuild, actShape} {
		for range p.weights[a] {
			deck = append(deck, a)
		}
	}
	return deck
}

// pause is the time between two events: often short, so that faults meet.
func (p plan) pause(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(p.every))
}

func (p plan) outage(rng *rand.Rand) time.Duration {
	return time.Duration(rng.ExpFloat64() * float64(20*time.Second))
}

// randomPath draws a one-way path: 0 to 200 ms (a round trip of up to 400 ms),
// and loss, reordering and duplication of up to 10 %, each often absent.
func randomPath(rng *rand.Rand) relay.Settings {
	maybe := func() float64 { return max(0, rng.Float64()*0.2-0.1) }
	return relay.Settings{
		Delay:   time.Duration(rng.IntN(201)) * time.Millisecond,
		Jitter:  time.Duration(rng.IntN(20)) * time.Millisecond,
		Loss:    maybe(),
		Reorder: maybe(), Duplicate: maybe(),
	}
}

func sortEvents(events []event) {
	slices.SortStableFunc(events, func(x, y event) int { return cmp.Compare(x.at, y.at) })
}

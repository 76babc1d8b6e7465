package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/cmd/rhumb/server"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
)

// deed is what a client or an operator does to a topic by way of one region.
type deed uint8

const (
	deedCreate deed = iota
	deedGrow
	deedAlter
	deedDelete     // in the whole mesh
	deedDeleteHere // in one region
	deedProduce
	deeds
)

// deck of deeds: what happens often stands often.
var deedDeck = []deed{deedCreate, deedCreate, deedCreate, deedGrow, deedAlter, deedAlter, deedDelete, deedDelete, deedDelete, deedDeleteHere,
	deedProduce, deedProduce, deedProduce, deedProduce, deedProduce, deedProduce}

// act is one deed. Those of one step are done at the same time.
type act struct {
	what       deed
	at         int // region
	topic      rhumb.Topic
	partitions int32
	key, value string
	configs    map[string]string
	alone      bool // no other deed of its step changes its topic
}

// namesRun is a world whose topics are made, grown, configured, deleted and made
// again in all regions at once, under faults of regions, network and store.
type namesRun struct {
	*world
	rng   *rand.Rand
	model *namesModel
	made  int // values
	cut   map[[2]int]bool
	down  bool      // the store, for all
	calm  time.Time // when one was last apart from the store, or switched on or off
}

// calmAfter is how long after trouble every region knows that the store is there.
const calmAfter = 20 * time.Second

// deedLimit is how long a client waits for an answer.
const deedLimit = 15 * time.Second

// runNames plays the steps, heals everything and waits until all regions are what
// the model says.
func (w *world) runNames(steps int) error {
	defer w.end()
	n := &namesRun{world: w, rng: rand.New(rand.NewPCG(w.seed, 0x6e616d6573)), model: newNamesModel(), cut: map[[2]int]bool{}}
	for i := range w.hosts {
		if err := w.switchOn(i); err != nil {
			return err
		}
	}
	for range steps {
		if err := n.step(); err != nil {
			return err
		}
	}
	w.note("FAULT the store is back")
	w.store.SetDown(false)
	w.store.SetSilent(false)
	for _, h := range w.hosts {
		h.apart.Store(false)
	}
	if err := n.heal(); err != nil {
		return err
	}
	deadline := time.Now().Add(settleLimit)
	for {
		err := n.checkNames()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			w.note("NOT SETTLED: %v", err)
			w.describe()
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// heal ends all faults.
func (n *namesRun) heal() error {
	for i, a := range n.hosts {
		if err := n.switchOn(i); err != nil {
			return err
		}
		for _, b := range n.hosts {
			if a != b {
				n.net.set(a.ip, b.ip, relay.Settings{Delay: 10 * time.Millisecond})
			}
		}
	}
	return nil
}

// step does up to three deeds at once, often with a fault in their middle.
func (n *namesRun) step() error {
	time.Sleep(time.Duration(n.rng.ExpFloat64() * float64(2*time.Second)))
	acts := make([]act, 1+n.rng.IntN(3))
	for i := range acts {
		acts[i] = n.draw()
	}
	for i := range acts {
		acts[i].alone = true
		for k := range acts {
			if k != i && acts[k].topic == acts[i].topic && acts[k].what != deedProduce {
				acts[i].alone = false
			}
		}
	}
	calm, faulty := n.isCalm(), n.rng.IntN(3) == 0
	var wg sync.WaitGroup
	for i := range acts {
		wg.Go(func() { n.do(&acts[i], calm && !faulty) })
	}
	err := error(nil)
	if faulty {
		time.Sleep(time.Duration(n.rng.IntN(200)) * time.Millisecond)
		err = n.fault()
	}
	wg.Wait()
	return err
}

func (n *namesRun) draw() act {
	a := act{what: deedDeck[n.rng.IntN(len(deedDeck))], at: n.rng.IntN(len(n.hosts)), topic: topicName(n.rng.IntN(n.plan.topics)),
		partitions: int32(1 + n.rng.IntN(5))}
	n.made++
	a.value = fmt.Sprint(1_000_000_000 + n.made) // large: nothing expires
	keys := []string{"retention.ms", "retention.bytes", "segment.ms"}
	a.key = keys[n.rng.IntN(len(keys))]
	if a.what == deedCreate && n.rng.IntN(2) == 0 {
		a.configs = map[string]string{a.key: a.value}
	}
	return a
}

// do carries a deed out and tells the model what was answered. calm says that every
// region reaches the store all the while.
func (n *namesRun) do(a *act, calm bool) {
	var s *server.Server
	_ = n.use(a.at, func(*region.Region) error { s = n.hosts[a.at].running; return nil })
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), deedLimit)
	defer cancel()
	info, there := s.Region().Topic(a.topic)
	before := n.document(a.topic)
	if !there && a.what != deedCreate {
		return
	}
	var err error
	b := s.Broker()
	switch a.what {
	case deedCreate:
		info, err = b.CreateTopic(ctx, broker.TopicSpec{Topic: a.topic, Partitions: a.partitions, Configs: a.configs})
	case deedGrow:
		err = b.GrowTopic(ctx, &info, a.partitions+int32(len(info.Partitions)))
	case deedAlter:
		err = b.AlterTopic(ctx, a.topic, []broker.ConfigChange{{Name: a.key, Value: a.value}}, false)
	case deedDelete:
		err = b.DeleteTopicIn(ctx, info, configstore.ScopeMesh, false)
	case deedDeleteHere:
		err = b.DeleteTopicIn(ctx, info, configstore.ScopeRegion, true)
	case deedProduce:
		n.produceOne(ctx, s.Region(), a, info)
		return
	}
	n.note("DEED %d in r%d: %s, count %d, of %d: %v", a.what, a.at, a.topic.Name, info.Deletions, len(info.Partitions), err)
	n.model.told(a, info, before, n.document(a.topic), err)
	if a.what == deedCreate && err == nil && a.alone && calm && info.Deletions < before.Deletions {
		n.model.blame(fmt.Errorf("r%d made %s under count %d, the mesh was at %d", a.at, a.topic.Name, info.Deletions, before.Deletions))
	}
}

// isCalm reports whether all regions that run have reached the store for a while.
func (n *namesRun) isCalm() bool {
	apart := n.down
	for _, h := range n.hosts {
		apart = apart || h.apart.Load()
	}
	return !apart && time.Since(n.calm) > calmAfter
}

// produceOne publishes a value into one partition.
func (n *namesRun) produceOne(ctx context.Context, r *region.Region, a *act, info region.TopicInfo) {
	p := info.Partitions[int(a.partitions)%len(info.Partitions)]
	if !p.Ready {
		return
	}
	raw, header := encodeBatch(codec.NoProducer, -1, []string{a.value}) // not idempotent: the same value is sent once
	answer := make(chan region.AppendResult, 1)
	n.model.sent(a.value, info.Deletions)
	r.Append(p.Ref, region.AppendRequest{Batch: raw, Header: header}, func(res region.AppendResult) { answer <- res })
	select {
	case res := <-answer:
		if res.Err == nil {
			n.model.acked(p.Life, a.value)
		}
	case <-ctx.Done():
	}
}

// document gives what the store says of a topic, whatever regions know of it.
func (n *namesRun) document(t rhumb.Topic) (doc configstore.Topic) {
	_, _ = configstore.NewWriter(n.known(), "sim").PutTopic(context.Background(), t, func(d *configstore.Topic) error {
		doc = *d
		return errApart // nothing is to be changed
	})
	return doc
}

// known is the store as it is while it is down for everybody.
func (n *namesRun) known() configstore.Store { return snapshot{n.store.Snapshot()} }

// fault breaks something, or mends it.
func (n *namesRun) fault() error {
	a := n.rng.IntN(len(n.hosts))
	b := (a + 1 + n.rng.IntN(len(n.hosts)-1)) % len(n.hosts)
	switch n.rng.IntN(7) {
	case 0, 1:
		pair := [2]int{min(a, b), max(a, b)}
		n.cut[pair] = !n.cut[pair]
		n.note("FAULT r%d and r%d are cut off from each other: %v", a, b, n.cut[pair])
		s := relay.Settings{Cut: n.cut[pair], Delay: 20 * time.Millisecond}
		n.net.set(n.hosts[a].ip, n.hosts[b].ip, s)
		n.net.set(n.hosts[b].ip, n.hosts[a].ip, s)
	case 2, 3:
		n.calm = time.Now()
		if n.hosts[a].running == nil {
			return n.switchOn(a)
		}
		n.note("FAULT r%d loses power", a)
		return n.switchOff(a, func(h *host) error { h.crash(n.seed + uint64(n.made)); return nil })
	case 4:
		apart := !n.hosts[a].apart.Load() && n.rng.IntN(2) == 0
		n.note("FAULT r%d is apart from the store: %v", a, apart)
		n.hosts[a].apart.Store(apart)
		n.calm = time.Now()
	case 5:
		down := n.rng.IntN(4) == 0
		n.note("FAULT the store is down: %v", down)
		n.store.SetDown(down)
		n.down, n.calm = down, time.Now()
	case 6:
		silent := n.rng.IntN(2) == 0
		n.note("FAULT the store's watches are silent: %v", silent)
		n.store.SetSilent(silent)
	}
	return nil
}

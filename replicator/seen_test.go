package replicator

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/wire"
)

// fakeDocuments is what a region has seen and heard.
type fakeDocuments struct {
	mu       sync.Mutex
	telling  configstore.Told
	heard    map[rhumb.RegionName]configstore.Told
	hears    int // calls of Hear
	removals map[rhumb.RegionName]configstore.Removal
	members  int // calls of HearMember
}

func newDocuments(n *node) *fakeDocuments {
	d := &fakeDocuments{heard: map[rhumb.RegionName]configstore.Told{}, removals: map[rhumb.RegionName]configstore.Removal{}}
	n.docs = d
	return d
}

func (d *fakeDocuments) Tell() configstore.Told {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.telling
}

func (d *fakeDocuments) Hear(peer rhumb.RegionName, t configstore.Told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard[peer] = t
	d.hears++
}

func (d *fakeDocuments) HearRemoval(r configstore.Removal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.removals[r.By] = r
}

func (d *fakeDocuments) HearMember(peer rhumb.RegionName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.removals, peer)
	d.members++
}

func (d *fakeDocuments) tells(t configstore.Told) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.telling = t
}

func (d *fakeDocuments) of(peer rhumb.RegionName) configstore.Told {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heard[peer]
}

// heardOf reports whether a peer told anything, be it that it has seen nothing.
func (d *fakeDocuments) heardOf(peer rhumb.RegionName) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.heard[peer]
	return ok
}

// count gives how often it heard anything.
func (d *fakeDocuments) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hears
}

func (d *fakeDocuments) said() map[rhumb.RegionName]configstore.Removal {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.removals)
}

// wentBack is what a region tells whose store lacks a document.
func wentBack(version uint64) configstore.Told {
	return configstore.Told{Since: time.UnixMilli(time.Now().UnixMilli()), Changes: 40 + version,
		Seen: []configstore.Sighting{{Key: configstore.RegionKey("eu"), Version: version, Sum: [16]byte{1, 2}}}}
}

// TestPeersAreToldWhatWasSeen: once for each change, over cuts, and anew by a process that
// starts again: what that one tells counts, and nothing of what the former told.
func TestPeersAreToldWhatWasSeen(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 40 * time.Millisecond}, usEuAp, func(ms *mesh) {
		docs := map[rhumb.RegionName]*fakeDocuments{}
		for name, n := range ms.nodes {
			docs[name] = newDocuments(n)
		}
		us, ap, first := docs["us"], docs["ap"], wentBack(7)
		docs["eu"].tells(first)
		ms.start()
		told := func(want configstore.Told) func() bool {
			return func() bool { return us.of("eu").Equal(want) && ap.of("eu").Equal(want) }
		}
		ms.until("both are told", 10*time.Second, told(first))
		ms.until("us has heard of ap, too", 10*time.Second, func() bool { return us.heardOf("ap") && ms.linked("us", "ap") })
		if us.of("ap").Changes != 0 || docs["eu"].of("us").Changes != 0 {
			ms.t.Errorf("somebody tells what others told: %+v", us.of("ap"))
		}
		before := us.count()
		ms.pass(time.Minute)
		if n := us.count(); n != before {
			ms.t.Errorf("it is told %d times in a minute in which nothing changed", n-before)
		}
		second := wentBack(8)
		ms.cut("us", "eu", relay.Settings{Cut: true})
		docs["eu"].tells(second)
		ms.until("ap is told of the change, us is cut off", 10*time.Second, func() bool { return ap.of("eu").Equal(second) && !ms.nodes["us"].connected("eu") })
		if !us.of("eu").Equal(first) {
			ms.t.Errorf("with the link its peer's word is gone: %+v", us.of("eu"))
		}
		ms.cut("us", "eu", relay.Settings{Delay: 40 * time.Millisecond, Loss: .02, Duplicate: .05})
		ms.until("us is told, too", 20*time.Second, told(second))
		docs["eu"].tells(configstore.Told{})
		ms.nodes["eu"].kill()
		ms.nodes["eu"].start()
		ms.until("a process that follows the store tells so", 20*time.Second, told(configstore.Told{}))
	})
}

// TestOlderPeerTellsNothing: it is not told anything either, and what a newer version of
// it told is forgotten.
func TestOlderPeerTellsNothing(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
		us := newDocuments(ms.nodes["us"])
		us.tells(wentBack(3))
		us.Hear("eu", wentBack(7))
		l := newLink(&Manager{cfg: Config{Self: ms.nodes["us"].self, Documents: us}}, &ms.policy.regions[1])
		old := &conn{m: l.m, link: l}
		var last *configstore.Told
		if err := old.tellSeen(&last); err != nil || last != nil {
			ms.t.Errorf("it is told %+v, %v", last, err)
		}
		l.member(old)
		if us.of("eu").Changes != 0 {
			ms.t.Errorf("%+v is left", us.of("eu"))
		}
		l.conn = old
		if err := old.onSeen(&wire.Seen{List: []wire.Sighting{{Key: "../../etc/passwd", Version: 1}}}); err == nil {
			ms.t.Error("a key that is none is taken")
		}
		if err := (&conn{m: l.m, link: l}).onSeen(&wire.Seen{Changes: 9}); err != nil || us.of("eu").Changes != 0 {
			ms.t.Errorf("what comes over a former connection counts: %v", err)
		}
	})
}

// TestRemovedRegionIsTold: who dials a peer whose documents have its tombstone learns which
// version says so; from that peer alone, until it takes the link.
func TestRemovedRegionIsTold(t *testing.T) {
	inBubble(t, relay.Settings{Delay: 20 * time.Millisecond}, usEuAp, func(ms *mesh) {
		us, ap := newDocuments(ms.nodes["us"]), newDocuments(ms.nodes["ap"])
		at := time.UnixMilli(time.Now().UnixMilli())
		self := ms.nodes["us"].self
		knows := &fakePolicy{edges: ms.policy.edges, subs: map[int]func(){}, docs: ms.policy.docs, regions: ms.policy.regions[1:],
			gone: map[rhumb.RegionNumber]configstore.Owner{self.Number: {Name: "us", Number: self.Number, Gone: true, RemovedAt: at, Version: 7}}}
		ms.nodes["eu"].policy = knows
		ms.start()
		want := configstore.Removal{By: "eu", Name: "us", Number: self.Number, Version: 7, At: at}
		isTold := func() bool { return us.said()["eu"] == want && ms.nodes["us"].link("eu").State == LinkRefused }
		ms.until("us is told, and has its link to ap", 20*time.Second, func() bool { return isTold() && ms.linked("us", "ap") })
		if got := ms.nodes["us"].link("eu").LastError; got == "" || len(us.said()) != 1 || len(ap.said()) != 0 {
			ms.t.Errorf("last error %q; us was told %v, ap %v", got, us.said(), ap.said())
		}
		ms.nodes["eu"].kill()
		ms.pass(10 * time.Second)
		ms.nodes["eu"].start()
		ms.pass(30 * time.Second) // refused again and again
		if !isTold() || ms.nodes["us"].logs.count("link is refused") != 1 {
			ms.t.Errorf("after a restart of eu: %v, us logged:\n%s", us.said(), ms.nodes["us"].logs)
		}
		knows.change(func() { knows.gone, knows.regions = nil, ms.policy.regions })
		ms.until("eu takes the link, and us hears that", 20*time.Second, func() bool { return ms.linked("us", "eu") && len(us.said()) == 0 })
	})
}

// TestRemovalIsNobodysWord: evidence that is about another region, or that cannot be read,
// is a refusal like any other; and so is a removal for a version that does not know the code.
func TestRemovalIsNobodysWord(t *testing.T) {
	inBubble(t, relay.Settings{Delay: time.Millisecond}, usEu, func(ms *mesh) {
		us := newDocuments(ms.nodes["us"])
		l := newLink(&Manager{cfg: Config{Self: ms.nodes["us"].self, Documents: us}}, &ms.policy.regions[1])
		for _, reason := range []string{
			"region us was removed",
			(&wire.Removed{Name: "ap", Number: 1, Version: 7}).Reason(),
			(&wire.Removed{Name: "us", Number: 2, Version: 7}).Reason(),
		} {
			err := reading(&quic.ApplicationError{Remote: true, ErrorCode: codeRemoved, ErrorMessage: reason})
			var r *refusal
			if l.heardRemoval(err); !errors.As(err, &r) || len(us.said()) != 0 {
				ms.t.Errorf("%q: %v, %v", reason, err, us.said())
			}
		}
		late := removedBy((&wire.Removed{Name: "us", Number: 1, Version: 7}).Reason())
		l.conn = &conn{}
		if l.heardRemoval(late); len(us.said()) != 0 {
			ms.t.Errorf("while the peer has the link it says %v", us.said())
		}
		l.conn = nil
		if l.heardRemoval(late); us.said()["eu"].Version != 7 {
			ms.t.Errorf("without a link it says %v", us.said())
		}
		ap := ms.add("ap")
		ms.policy.edges = fullMesh("us", "eu", "ap")
		delete(ms.nodes, "ap") // it is played by the test
		ms.policy.gone = map[rhumb.RegionNumber]configstore.Owner{3: {Name: "ap", Number: 3, Gone: true, RemovedAt: time.Now(), Version: 7}}
		ms.start()
		synctest.Wait()
		h := (&Manager{cfg: Config{Self: ap.self}}).hello()
		for optional, code := range map[uint64]quic.ApplicationErrorCode{h.Optional: codeRemoved, h.Optional &^ featureSeen: codeRefused} {
			h.Optional = optional
			var app *quic.ApplicationError
			if err := ms.greetAs(ms.nodes["eu"], ap.certs, h); !errors.As(err, &app) || app.ErrorCode != code {
				ms.t.Errorf("features %#x: %v, want code %d", optional, err, code)
			}
		}
	})
}

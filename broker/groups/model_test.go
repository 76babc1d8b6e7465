package groups

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// The model: processes that behave like clients, more or less, on a coordinator
// whose disk is slow, fails and loses power. It knows nothing of how the group
// works; it remembers what processes were told, and says what that must not be:
//
//   - a generation has one leader, and its members were all told of the same
//     assignment by it, whatever crashed in between;
//   - who was replaced, has left, or speaks for a generation older than one that
//     somebody was told of does not commit;
//   - the newest process of a static member is never fenced by an older one;
//   - each request is answered once, and in the end all that live share the
//     newest generation.
type model struct {
	fail  func(format string, args ...any)
	c     *Coordinator
	disk  medium
	procs []*process

	seq      rhumb.Offset // grows with each commit
	acked    rhumb.Offset // largest one that was answered
	life     int          // of the coordinator
	asked    int          // requests of this life
	answered int
	nonce    int

	newest     int32           // generation that anybody was told of in this life
	completed  int32           // generation that anybody got an assignment of
	leaders    map[int32]int   // generation → process, in this life
	nonces     map[int32]int   // generation → what its leader brought
	superseded map[string]bool // member ids of static members whose place was taken
	left       map[string]int  // member id → life in which it left
	past       []MemberRef     // what processes once were

	mu    sync.Mutex
	inbox []func() // answers that came
}

// medium is where the model's groups are stored.
type medium interface {
	Store
	set(slow bool, failing error) // slow: until it is set again
	run(n int)                    // n writes of a slow one get through
	crash(seed int) medium        // lose power; what comes back
	topic() rhumb.UUID
	close()
}

// process is a client. A static one has the same instance id for ever.
type process struct {
	n         int
	fail      func(format string, args ...any)
	instance  string
	likes     []string
	me        MemberRef
	leads     bool
	members   []string // as the leader was told
	joined    bool
	synced    bool
	waits     bool
	run       int // grows when the process starts again: answers to the last one are lost
	owned     string
	forgotten []string // member ids of the processes before, while their place is being taken
}

// TestMain runs more cases than rapid's default: one takes a millisecond.
func TestMain(m *testing.M) {
	flag.Parse()
	explicit := false
	flag.Visit(func(f *flag.Flag) { explicit = explicit || f.Name == "rapid.checks" })
	if !explicit {
		if err := flag.Set("rapid.checks", "2000"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

const (
	modelSession = 10 * time.Second
	modelLimit   = 20 * time.Second
)

func newModel(fail func(string, ...any), on medium, processes int) *model {
	m := &model{fail: fail, disk: on, life: 1, nonces: map[int32]int{}, superseded: map[string]bool{}, left: map[string]int{}}
	m.start()
	for n := range processes {
		p := &process{n: n, fail: fail, likes: []string{"range", "sticky"}}
		if n%2 == 1 {
			p.instance = fmt.Sprint("i", n)
		}
		m.procs = append(m.procs, p)
	}
	return m
}

// start begins a coordinator's life on what is stored.
func (m *model) start() {
	c, err := New(Config{Store: m.disk, InitialDelay: 3 * time.Second, MinSession: time.Second, MaxMembers: 10})
	if err != nil {
		m.fail("%v", err)
	}
	m.c, m.leaders, m.newest = c, map[int32]int{}, m.completed
	m.asked, m.answered = 0, 0
}

// crash ends the coordinator and what it knew; connections break. The life is over
// before the disk is copied: a flush that still ends while the old store stops is
// on the old disk only, and its answer would reach nobody.
func (m *model) crash(seed int) {
	old := m.c
	m.life++
	m.disk = m.disk.crash(seed)
	old.Close()
	m.settle()
	for _, p := range m.procs {
		if p.waits {
			p.waits, p.joined = false, p.joined && !p.synced
			p.run++
		}
	}
	m.start()
	m.checkOffsets()
}

// checkOffsets: what was answered as committed is there.
func (m *model) checkOffsets() {
	at := m.disk.Offsets(testKey)[OffsetKey{TopicID: m.disk.topic()}]
	if at.Offset < m.acked {
		m.fail("I1: commit %d was answered, %d is there", m.acked, at.Offset)
	}
}

// settle waits until nothing moves, and takes the answers that came.
func (m *model) settle() {
	synctest.Wait()
	m.mu.Lock()
	inbox := m.inbox
	m.inbox = nil
	m.mu.Unlock()
	for _, answer := range inbox {
		answer()
	}
}

// request makes the answer's way to a process: through the inbox, once, and only
// if the process and the coordinator still live.
func request[A any](m *model, p *process, took func(A)) func(A) {
	life, run, times := m.life, p.run, 0
	p.waits = true
	m.asked++
	return func(a A) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inbox = append(m.inbox, func() {
			if times++; times > 1 {
				m.fail("process %d was answered twice", p.n)
			}
			if life != m.life {
				return
			}
			m.answered++
			if run == p.run {
				p.waits = false
				took(a)
			}
		})
	}
}

// step lets a process do what a client does next.
func (m *model) step(p *process) {
	switch {
	case p.waits:
	case !p.joined:
		m.join(p)
	case !p.synced:
		m.sync(p)
	default:
		p.heard(m.c.Heartbeat(testKey, p.me))
	}
	m.settle()
}

// heard is what a client makes of an error.
func (p *process) heard(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrRebalancing), errors.Is(err, ErrGeneration):
		p.joined, p.synced = false, false
	case errors.Is(err, ErrFencedInstance):
		p.fail("process %d is the newest of %s, and fenced as %s", p.n, p.instance, p.me.ID)
	case errors.Is(err, ErrUnknownMember):
		p.joined, p.synced, p.me = false, false, MemberRef{Instance: p.instance}
	}
}

func (m *model) join(p *process) {
	req := JoinRequest{Member: p.me.ID, Instance: p.instance, ClientID: fmt.Sprint("p", p.n), Host: "/h", Session: modelSession,
		Limit: modelLimit, Kind: "consumer", NeedsID: true, SkipsAssignment: p.n%4 == 1}
	for _, name := range p.likes {
		req.Protocols = append(req.Protocols, Protocol{name, fmt.Append(nil, "of ", p.n)})
	}
	m.c.Join(testKey, req, request(m, p, func(a JoinAnswer) {
		if errors.Is(a.Err, ErrMemberID) {
			p.me.ID = a.Member
			return
		}
		if p.heard(a.Err); a.Err != nil {
			return
		}
		m.told(p, a)
	}))
}

// told checks an answer that makes a process a member.
func (m *model) told(p *process, a JoinAnswer) {
	for _, id := range p.forgotten {
		m.superseded[id] = true
	}
	p.forgotten = nil
	p.me = MemberRef{ID: a.Member, Instance: p.instance, Generation: a.Generation}
	m.past = append(m.past, p.me)
	p.joined, p.synced, p.leads, p.members = true, false, a.Leader == a.Member && !a.Skip, nil
	for _, other := range a.Members {
		p.members = append(p.members, other.ID)
	}
	m.newest = max(m.newest, a.Generation)
	if !p.leads {
		return
	}
	if who, ok := m.leaders[a.Generation]; ok && who != p.n {
		m.fail("generation %d is led by processes %d and %d", a.Generation, who, p.n)
	}
	m.leaders[a.Generation] = p.n
	if !slices.Contains(p.members, a.Member) {
		m.fail("the leader %s of generation %d is not among %v", a.Member, a.Generation, p.members)
	}
}

func (m *model) sync(p *process) {
	req := SyncRequest{Member: p.me, Kind: "consumer"}
	if p.leads {
		m.nonce++
		for _, id := range p.members {
			req.Assignments = append(req.Assignments, Assignment{id, fmt.Appendf(nil, "%d %d", p.me.Generation, m.nonce)})
		}
	}
	generation := p.me.Generation
	m.c.Sync(testKey, req, request(m, p, func(a SyncAnswer) {
		if p.heard(a.Err); a.Err != nil {
			return
		}
		var of int32
		var nonce int
		if _, err := fmt.Sscan(string(a.Assignment), &of, &nonce); err != nil || of != generation {
			m.fail("process %d in generation %d is assigned %q", p.n, generation, a.Assignment)
		}
		if known, ok := m.nonces[generation]; ok && known != nonce {
			m.fail("generation %d has two assignments, %d and %d", generation, known, nonce)
		}
		m.nonces[generation] = nonce
		m.completed, m.newest = max(m.completed, generation), max(m.newest, generation)
		p.synced, p.owned = true, string(a.Assignment)
	}))
}

// commit lets somebody commit who may be long gone.
func (m *model) commit(ref MemberRef) {
	replaced := m.superseded[ref.ID]
	fenced := ref.Generation < m.newest || replaced || m.left[ref.ID] == m.life
	life := m.life
	m.seq++
	seq := m.seq
	at := OffsetCommit{TopicID: m.disk.topic(), Offset: seq, At: time.Now().UnixMilli()}
	m.c.Commit(testKey, ref, []OffsetCommit{at}, func(err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.inbox = append(m.inbox, func() {
			if err != nil || life != m.life {
				return
			}
			m.acked = max(m.acked, seq)
			if fenced {
				m.fail("%+v committed; generation %d, replaced %v, left %v", ref, m.newest, replaced, m.left[ref.ID] == m.life)
			}
		})
	})
	m.settle()
}

// leave lets a process leave.
func (m *model) leave(p *process) {
	errs, err := m.c.Leave(testKey, []MemberRef{p.me})
	if err == nil && errs[0] == nil && p.me.ID != "" {
		m.left[p.me.ID] = m.life
	}
	p.run++
	p.waits, p.joined, p.synced, p.me, p.forgotten = false, false, false, MemberRef{Instance: p.instance}, nil
	m.settle()
}

// restart kills a process and starts it again: it does not know who it was.
func (m *model) restart(p *process) {
	if p.instance != "" && p.joined {
		p.forgotten = append(p.forgotten, p.me.ID)
	}
	p.run++
	p.waits, p.joined, p.synced, p.me = false, false, false, MemberRef{Instance: p.instance}
}

// pass lets time go by.
func (m *model) pass(d time.Duration) {
	<-time.After(d)
	m.settle()
}

// heal ends all trouble, and waits until all processes share a generation.
func (m *model) heal() {
	m.disk.set(false, nil)
	m.settle()
	agreed := func() bool {
		return !slices.ContainsFunc(m.procs, func(p *process) bool {
			return !p.synced || p.me.Generation != m.procs[0].me.Generation || m.c.Heartbeat(testKey, p.me) != nil
		})
	}
	for range 600 {
		for _, p := range m.procs {
			m.step(p)
		}
		if agreed() {
			break
		}
		m.pass(time.Second)
	}
	if !agreed() {
		for _, p := range m.procs {
			m.fail("process %d does not come to rest: %+v", p.n, *p)
		}
	}
	for _, p := range m.procs {
		m.leave(p)
	}
	m.pass(2 * newMemberWait) // whatever was asked is answered
	if d, err := m.c.Describe(testKey); err == nil && (d.State != Empty || len(d.Members) > 0) {
		m.fail("all have left, and there is %+v", d)
	}
	m.checkOffsets()
	if m.asked != m.answered {
		m.fail("%d of %d requests were answered", m.answered, m.asked)
	}
	if used := m.c.Memory(); used != 0 {
		m.fail("%d bytes are held of an empty group", used)
	}
}

// TestGroupModel tries random schedules of everything above.
func TestGroupModel(t *testing.T) { rapid.Check(t, inBubble(t, checkModel)) }

func checkModel(t *rapid.T) { runModel(t, newDisk()) }

// inBubble gives each random case a clock of its own.
func inBubble(t *testing.T, check func(*rapid.T)) func(*rapid.T) {
	return func(rt *rapid.T) {
		var thrown any // rapid's way to end a case must not end the bubble
		bubble.Test(t, func(*testing.T) {
			defer func() { thrown = recover() }()
			check(rt)
		})
		if thrown != nil {
			panic(thrown)
		}
	}
}

func runModel(t *rapid.T, on medium) {
	m := newModel(t.Fatalf, on, 2+roll(t, "processes", 4))
	defer func() { m.c.Close(); m.disk.close() }()
	for range rapid.IntRange(50, 250).Draw(t, "steps") {
		p := m.procs[roll(t, "process", len(m.procs))]
		switch what := roll(t, "what", 64); {
		case what < 36:
			m.step(p)
		case what < 44:
			m.pass(time.Duration(1+roll(t, "for", 40)) * 500 * time.Millisecond)
		case what < 47:
			m.commit(p.me)
		case what < 51 && len(m.past) > 0:
			m.commit(m.past[roll(t, "past", len(m.past))])
		case what < 52:
			m.leave(p)
		case what < 56:
			m.restart(p)
			m.step(p)
		case what < 57:
			slices.Reverse(p.likes)
			p.joined, p.synced = p.joined && p.waits, p.synced && p.waits
		case what < 59:
			m.disk.set(true, nil)
		case what < 60:
			m.disk.set(false, errDisk)
		case what < 61:
			m.disk.set(false, nil)
		case what < 62:
			m.disk.run(1)
		default:
			m.crash(roll(t, "seed", 1000))
		}
		m.settle()
	}
	m.heal()
}

// roll rolls an even die.
func roll(t *rapid.T, what string, sides int) int {
	return rapid.Custom(func(t *rapid.T) int {
		n := 0
		for range 10 {
			n *= 2
			if rapid.Bool().Draw(t, "bit") {
				n++
			}
		}
		return n
	}).Draw(t, what) % sides
}

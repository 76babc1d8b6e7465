package commitlog

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// entries makes entries first, first+1, … of a term, one for each payload.
func entries(first, term uint64, data ...string) []*raftpb.Entry {
	var out []*raftpb.Entry
	for i, d := range data {
		out = append(out, &raftpb.Entry{Index: new(first + uint64(i)), Term: new(term), Type: raftpb.EntryNormal.Enum(), Data: []byte(d)})
	}
	return out
}

func hardState(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: new(term), Vote: new(vote), Commit: new(commit)}
}

// running is an open log with Run going.
type running struct {
	*Log
	t      testing.TB
	cancel context.CancelFunc
	result chan error
}

func openLog(t testing.TB, cfg Config) (*Log, Report) {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = "log"
	}
	l, rep, err := Open(cfg)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, rep
}

func start(t testing.TB, cfg Config) *running {
	t.Helper()
	l, _ := openLog(t, cfg)
	return run1(t, l)
}

func run1(t testing.TB, l *Log) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Log: l, t: t, cancel: cancel, result: make(chan error, 1)}
	go func() { r.result <- l.Run(ctx) }()
	t.Cleanup(func() { r.cancel(); l.Close() })
	return r
}

// stopped ends Run and closes the log.
func (r *running) stopped() error {
	r.cancel()
	err := <-r.result
	r.Close()
	return err
}

// save appends and waits for done.
func (r *running) save(f *Frame) []Location {
	r.t.Helper()
	locs, err := r.try(f, true)
	if err != nil {
		r.t.Fatalf("append: %v", err)
	}
	return locs
}

func (r *running) try(f *Frame, mustSync bool) (locs []Location, err error) {
	var wg sync.WaitGroup
	wg.Add(1)
	r.Append(f, mustSync, func(l []Location, e error) { locs, err = l, e; wg.Done() })
	wg.Wait()
	return locs, err
}

// replayed gives what a log holds, a line per entry and hard state.
func replayed(t testing.TB, l *Log, from uint64) []string {
	t.Helper()
	var out []string
	err := l.Replay(from, func(f *Frame, locs []Location) error {
		if f.Kind == KindCheckpoint {
			return nil
		}
		if hs := f.HardState; hs != nil {
			out = append(out, fmt.Sprintf("%d hs %d/%d/%d", f.Shard, hs.GetTerm(), hs.GetVote(), hs.GetCommit()))
		}
		for i, e := range f.Entries {
			buf := make([]byte, locs[i].Len)
			if err := l.ReadAt(locs[i], buf); err != nil {
				return err
			}
			if string(buf) != string(e.GetData()) {
				return fmt.Errorf("location %v has %q, entry %q", locs[i], buf, e.GetData())
			}
			out = append(out, fmt.Sprintf("%d %s %d.%d %s", f.Shard, f.Kind, e.GetIndex(), e.GetTerm(), e.GetData()))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("replay: %v", err)
	}
	return out
}

func TestAppendAndReopen(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"mem": vfs.NewMem(vfs.MemConfig{}), "os": vfs.OS()} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{FS: fs, Dir: t.TempDir() + "/log"}
			l := start(t, cfg)
			l.save(&Frame{Kind: KindEntries, Shard: 1, HardState: hardState(1, 2, 0), Entries: entries(1, 1, "a", "b")})
			l.save(&Frame{Kind: KindEntries, Shard: rhumb.ShardID(2), Entries: entries(7, 3, "x", "")})
			want := []string{"1 hs 1/2/0", "1 entries 1.1 a", "1 entries 2.1 b", "2 entries 7.3 x", "2 entries 8.3 "}
			for range 3 {
				if got := replayed(t, l.Log, 0); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("got %q, want %q", got, want)
				}
				if err := l.stopped(); err != nil {
					t.Fatal(err)
				}
				l = start(t, cfg)
				line := fmt.Sprintf("%d", len(want))
				l.save(&Frame{Kind: KindEntries, Shard: 1, Entries: entries(uint64(len(want)), 1, line)})
				want = append(want, fmt.Sprintf("1 entries %d.1 %s", len(want), line))
			}
		})
	}
}

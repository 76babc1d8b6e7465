package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const key = "rhumb/v1/tenants/t"

func document(t *testing.T, version int) configstore.Document {
	t.Helper()
	d, err := configstore.ParseDocument(key, fmt.Appendf(nil, `{"version":%d,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test"}`, version))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir, PollEvery: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestWriterDiesAtEachStep cuts a put before each of its steps in turn. Readers
// see the old document or the new one, the next put works, and a watch of another
// handle sees whatever took effect.
func TestWriterDiesAtEachStep(t *testing.T) {
	crash := errors.New("crash")
	for _, step := range []string{"write", "mark", "rename", "sync directory"} {
		t.Run(step, func(t *testing.T) {
			dir := t.TempDir()
			writer, reader := openStore(t, dir), openStore(t, dir)
			if err := writer.Put(t.Context(), document(t, 1)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			seen := make(chan uint64, 100)
			var watch sync.WaitGroup
			watch.Go(func() {
				_ = reader.Watch(ctx, configstore.Prefix, func(docs []configstore.Document) { seen <- docs[0].Version })
			})
			defer watch.Wait()
			defer cancel()
			waitFor := func(version uint64) {
				t.Helper()
				for {
					select {
					case v := <-seen:
						if v == version {
							return
						}
					case <-ctx.Done():
						t.Fatalf("the watch never told of version %d", version)
					}
				}
			}
			waitFor(1)
			writer.step = func(name string) error {
				if name == "rename" { // the watch looks between the first mark and the rename
					<-time.After(20 * reader.poll)
				}
				if name == step {
					return crash
				}
				return nil
			}
			if err := writer.Put(t.Context(), document(t, 2)); !errors.Is(err, crash) {
				t.Fatal(err)
			}
			want := uint64(1)
			if step == "sync directory" {
				want = 2
				waitFor(2)
			}
			d, err := reader.Get(t.Context(), key)
			if err != nil || d.Version != want {
				t.Fatalf("version %d, %v; want %d", d.Version, err, want)
			}
			if err := reader.Put(t.Context(), document(t, int(want)+1)); err != nil {
				t.Fatal(err)
			}
			waitFor(want + 1)
			entries, err := os.ReadDir(filepath.Join(dir, "rhumb/v1/tenants"))
			if err != nil || len(entries) != 1 {
				t.Fatalf("the next put left %v, %v", entries, err)
			}
		})
	}
}

// TestTornFileIsTold cuts a document's file everywhere and flips each byte: it is
// told as damaged with its name, never read as another document.
func TestTornFileIsTold(t *testing.T) {
	s := openStore(t, t.TempDir())
	if err := s.Put(t.Context(), document(t, 1)); err != nil {
		t.Fatal(err)
	}
	path := s.path(key)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := decodeFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	try := func(raw []byte) {
		t.Helper()
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := s.Get(t.Context(), key)
		if err == nil && string(d.JSON) == string(want.JSON) {
			return // white space
		}
		if rhumb.KindOf(err) != rhumb.KindCorrupt || !strings.Contains(err.Error(), path) {
			t.Fatalf("%q: %v (%v)", raw, err, rhumb.KindOf(err))
		}
		if _, err := s.List(t.Context(), configstore.Prefix); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Fatalf("list: %v", err)
		}
		if err := s.Put(t.Context(), document(t, 2)); rhumb.KindOf(err) != rhumb.KindCorrupt {
			t.Fatalf("put over it: %v", err)
		}
	}
	for i := range whole {
		try(whole[:i])
		flipped := append([]byte{}, whole...)
		flipped[i] ^= 1
		try(flipped)
	}
}

func TestFileOfAnotherKeyIsTold(t *testing.T) {
	s := openStore(t, t.TempDir())
	if err := s.Put(t.Context(), document(t, 1)); err != nil {
		t.Fatal(err)
	}
	other := "rhumb/v1/tenants/u"
	if err := os.Rename(s.path(key), s.path(other)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), other); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), configstore.Prefix); rhumb.KindOf(err) != rhumb.KindCorrupt {
		t.Fatal(err)
	}
}

const writerEnv = "RHUMB_TEST_WRITER_DIR"

// TestMain is also the writer process of TestKilledWriters.
func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		s, err := Open(Config{Dir: dir})
		if err != nil {
			os.Exit(1)
		}
		w := configstore.NewWriter(s, "writer")
		for {
			n, err := w.CountDeletion(context.Background(), rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"})
			if err != nil {
				fmt.Println("error", err)
				os.Exit(1)
			}
			fmt.Println(n)
		}
	}
	os.Exit(m.Run())
}

// TestKilledWriters kills real processes (kill -9) in the middle of their puts:
// what one was told is stored is stored, the count never falls, and the next one
// goes on.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir()
	reader := openStore(t, dir)
	topic := configstore.TopicKey(rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"})
	last := 0
	for round := range 12 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := 0
		for i := 0; i <= round%4; i++ {
			if _, err := fmt.Fscanln(out, &told); err != nil {
				t.Fatalf("writer %d: %v", round, err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(out)
		_ = cmd.Wait() // killed
		if lines := strings.Fields(string(rest)); len(lines) > 0 {
			fmt.Sscan(lines[len(lines)-1], &told)
		}
		d, err := reader.Get(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		if int(d.Version) < told || int(d.Version) > told+1 || told <= last {
			t.Fatalf("round %d: version %d is stored, %d was told, %d before", round, d.Version, told, last)
		}
		last = told
	}
}

func FuzzDecodeFile(f *testing.F) {
	d, err := configstore.ParseDocument(key, []byte(`{"version":1,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test","x":[{}]}`))
	if err != nil {
		f.Fatal(err)
	}
	raw, err := encodeFile(d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(raw[:len(raw)/2])
	f.Add([]byte(`{"key":"rhumb/v1/mesh","sha256":"","document":{}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := decodeFile(raw)
		if err != nil {
			return
		}
		again, err := encodeFile(d)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeFile(again); err != nil || string(back.JSON) != string(d.JSON) || back.Key != d.Key {
			t.Fatalf("%s comes back as %s, %v", d.JSON, back.JSON, err)
		}
	})
}

func TestFileNamesDiffer(t *testing.T) {
	long := strings.Repeat("A", 249)
	names := []string{"a", "A", "a.json", long, long[:248] + "B", strings.ToLower(long), long[:100], "%61"}
	seen := map[string]string{}
	for _, n := range names {
		f := strings.ToLower(fileName(n))
		if other, ok := seen[f]; ok || len(f) > maxName {
			t.Errorf("%.20q and %.20q share the file %.40q", n, other, f)
		}
		seen[f] = n
	}
}

package inspect

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

func TestVerifyNamesWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		name   string
		remove func(logs []string) []string
		say    string
	}{
		{"log file", func([]string) []string { return []string{"log/0000000000000002.log"} }, "log/0000000000000002.log: damaged: missing"},
		{"log file and index", func([]string) []string { return []string{"log/0000000000000002.log", "index/0000000000000002.idx"} },
			"log/0000000000000002.log: damaged: missing"},
		{"index", func([]string) []string { return []string{"index/0000000000000002.idx"} }, "index/0000000000000002.idx: damaged: missing"},
		{"newest log file", func(logs []string) []string { return []string{"log/" + logs[len(logs)-1]} }, "the log ends at entry"},
		{"newest log file, by its name", func(logs []string) []string { return []string{"log/" + logs[len(logs)-1]} }, ".log: damaged: missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				fs := fill(t)
				names, err := fs.List("data/log")
				if err != nil {
					t.Fatal(err)
				}
				logs := slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".log") })
				for _, name := range c.remove(logs) {
					if err := fs.Remove(filepath.Join("data", name)); err != nil {
						t.Fatal(err)
					}
				}
				var out strings.Builder
				r, err := Verify(&out, fs, "data")
				if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), c.say) {
					t.Errorf("%v, verdict %d:\n%s", err, r.Verdict(), &out)
				}
			})
		})
	}
}

func TestVerifyReadsTheStateDatabase(t *testing.T) {
	for _, all := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			fs := fill(t)
			names, err := fs.List("data/state")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				if all || strings.HasPrefix(n, "MANIFEST") {
					if err := fs.Remove(filepath.Join("data/state", n)); err != nil {
						t.Fatal(err)
					}
				}
			}
			var out strings.Builder
			r, err := Verify(&out, fs, "data")
			if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), "state: damaged") {
				t.Errorf("%v, verdict %d:\n%s", err, r.Verdict(), &out)
			}
		})
	}
}

// TestVerifyAfterARefusedStart: the state database is lost, and a start that was refused for that
// has made an empty one: that is not a sound directory.
func TestVerifyAfterARefusedStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := fill(t)
		names, err := fs.List("data/state")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if err := fs.Remove(filepath.Join("data/state", n)); err != nil {
				t.Fatal(err)
			}
		}
		_, refused := storage.Open(storage.Config{FS: fs, Dir: "data", Shards: 1, FileSize: 64 << 10, MinFree: -1, Reserve: -1})
		if refused == nil || !strings.Contains(refused.Error(), "files have settled") {
			t.Fatalf("the store opens: %v", refused)
		}
		var out strings.Builder
		r, err := Verify(&out, fs, "data")
		if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), "state: damaged: shard 1: files have settled up to entry") {
			t.Errorf("%v, verdict %d:\n%s", err, r.Verdict(), &out)
		}
	})
}

func TestVerifyOfAParentNamesDataDirectories(t *testing.T) {
	fs := vfs.NewMem(vfs.MemConfig{})
	for _, dir := range []string{"top/regions/us/data", "top/regions/eu/data", "top/other"} {
		if err := fs.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		if dir == "top/other" {
			continue
		}
		f, err := fs.Create(dir + "/FORMAT")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Verify(io.Discard, fs, "top")
	if err != nil || r.Verdict() != Unreadable || !strings.Contains(r.Err().Error(), "regions/eu/data, regions/us/data") {
		t.Errorf("%v, verdict %d: %v", err, r.Verdict(), r.Err())
	}
}

// TestVerifyReadsEveryBlockOfTheStateDatabase flips bytes all over its tables: each is
// found, and named by its file, in one line.
func TestVerifyReadsEveryBlockOfTheStateDatabase(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		fs := fill(t)
		name := first(t, fs, "state", ".sst")
		info, err := fs.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		const footer = 61 // the longest that has no checksum of its own
		step := max(1, info.Size/50)
		for pos := int64(0); pos < info.Size-footer; pos += step {
			clone := fs.CrashClone(vfs.CrashOptions{Unsynced: vfs.UnsyncedKept})
			flip(t, clone, name, pos)
			var out strings.Builder
			r, err := Verify(&out, clone, "data")
			if err != nil || r.Verdict() != Damaged || !strings.Contains(out.String(), "state/"+filepath.Base(name)+": damaged: ") {
				t.Fatalf("flipped %d of %d: %v, verdict %d:\n%s", pos, info.Size, err, r.Verdict(), &out)
			}
			for _, p := range r.Problems {
				if strings.ContainsAny(p.What, "\n\x00") || strings.Contains(p.What, "carrier") {
					t.Errorf("flipped %d: %q", pos, p.What)
				}
			}
		}
	})
}

package inspect

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

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
			synctest.Test(t, func(t *testing.T) {
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
		synctest.Test(t, func(t *testing.T) {
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

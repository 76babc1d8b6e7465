package certs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// fine ends the test if a listed certificate has a problem.
func fine(t *testing.T, f *Folder, want int) []Listed {
	t.Helper()
	list := check(f.List(time.Now()))(t)
	for _, l := range list {
		if len(l.Problems) > 0 {
			t.Errorf("%s: %v", l.File, l.Problems)
		}
	}
	if len(list) != want {
		t.Errorf("%d certificates, want %d: %+v", len(list), want, list)
	}
	return list
}

func TestFolderMakesWhatLinksTake(t *testing.T) {
	f := NewFolder(filepath.Join(t.TempDir(), "a", "certs"))
	check(f.Init(mesh, Options{}))(t)
	for _, name := range []string{"us", "eu", "ca"} { // a region may be called ca
		check(f.Issue(RoleRegion, name, Options{Hosts: []string{"us.example", "::1"}}))(t)
	}
	check(f.Issue(RoleClient, "us", Options{}))(t)
	list := fine(t, f, 5)
	if l := list[4]; l.Role != RoleRegion || l.Name != "us" || l.Mesh != mesh || !slices.Equal(l.Hosts, []string{"us.example", "::1"}) || len(l.Fingerprint) != 64 {
		t.Errorf("region us is listed as %+v", l)
	}
	for _, l := range list {
		info := check(os.Stat(strings.TrimSuffix(l.File, ".crt") + ".key"))(t)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", info.Name(), info.Mode())
		}
	}
	source := func(name string) *Source {
		ca, _ := f.CAFiles()
		cert, key := f.Files(RoleRegion, name)
		return check(Open(Files{CA: ca, Cert: cert, Key: key}))(t)
	}
	if _, s, c := shake(t, LinkServer(source("us"), mesh), LinkClient(source("eu"), mesh, "us")); s != nil || c != nil {
		t.Errorf("us and eu do not link: %v, %v", s, c)
	}
}

// A file that holds somebody else's certificate is told, whether all of the folder is
// looked at or that file: a region would start with it and be taken by no peer.
func TestFolderTellsWhoseFileHoldsWhoseCertificate(t *testing.T) {
	f := NewFolder(t.TempDir())
	check(f.Init(mesh, Options{}))(t)
	for _, name := range []string{"us", "eu"} {
		check(f.Issue(RoleRegion, name, Options{}))(t)
	}
	check(f.Issue(RoleClient, "us", Options{}))(t)
	ca, _ := f.CAFiles()
	us, _ := f.Files(RoleRegion, "us")
	eu, _ := f.Files(RoleRegion, "eu")
	client, _ := f.Files(RoleClient, "us")
	own := filepath.Join(filepath.Dir(us), "own.crt") // a name that says nothing
	put := func(from, to string) {
		t.Helper()
		for _, end := range []string{".crt", ".key"} {
			raw := check(os.ReadFile(strings.TrimSuffix(from, ".crt") + end))(t)
			if err := os.WriteFile(strings.TrimSuffix(to, ".crt")+end, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(eu, own)
	fine(t, f, 5)
	for _, c := range []struct{ from, to, want string }{
		{eu, us, "is that of region eu, not of region us: put the right one there, or make it with 'rhumb certs issue us --force'"},
		{us, client, "is that of region eu, not of client us: put the right one there, or make it with 'rhumb certs issue us --force --client'"},
		{ca, us, "is that of the mesh's CA, not of region us: "},
	} {
		put(c.from, c.to)
		lists := map[string][]Listed{"folder": check(f.List(time.Now()))(t), "file": ListFiles(time.Now(), []string{c.to}), "file and CA": ListFiles(time.Now(), []string{c.to, ca})}
		for how, list := range lists {
			i := slices.IndexFunc(list, func(l Listed) bool { return l.File == c.to })
			if got := list[i].Problems; len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("%s: %s in place of %s: problems %q, want %q", how, filepath.Base(c.from), filepath.Base(c.to), got, c.want)
			}
		}
	}
}

func TestFolderReplacesOnlyWhenTold(t *testing.T) {
	f := NewFolder(t.TempDir())
	first := check(f.Init(mesh, Options{}))(t)
	us := check(f.Issue(RoleRegion, "us", Options{}))(t)
	if _, err := f.Init(mesh, Options{}); rhumb.KindOf(err) != rhumb.KindExists || !strings.Contains(err.Error(), "--force") {
		t.Errorf("second CA: %v", err)
	}
	if _, err := f.Issue(RoleRegion, "us", Options{}); rhumb.KindOf(err) != rhumb.KindExists {
		t.Errorf("second certificate: %v", err)
	}
	if now := check(f.CA())(t); !now.Cert.Equal(first.Cert) {
		t.Error("the CA changed")
	}
	if again := check(f.Issue(RoleRegion, "us", Options{Replace: true}))(t); again.Key.Equal(us.Key) {
		t.Error("--force kept the key")
	}
	fine(t, f, 2)
	check(f.Init(mesh, Options{Replace: true}))(t)
	if list := check(f.List(time.Now()))(t); len(list[1].Problems) != 1 || !strings.Contains(list[1].Problems[0], "another CA") {
		t.Errorf("after another CA the region's certificate has problems %v", list[1].Problems)
	}
}

// A process that is killed leaves at each point what the next call finishes.
func TestFolderCutAtEachWrite(t *testing.T) {
	cut := errors.New("cut")
	for _, at := range []string{"key", "certificate"} {
		f := NewFolder(t.TempDir())
		ready := f.step
		again := func(make func() error) {
			t.Helper()
			f.step = func(step string) error {
				if step == at {
					return cut
				}
				return nil
			}
			if err := make(); !errors.Is(err, cut) {
				t.Fatalf("cut before the %s: %v", at, err)
			}
			left, _ := filepath.Glob(filepath.Join(f.dir, "*.key"))
			list := check(f.List(time.Now()))(t)
			if broken := slices.ContainsFunc(list, func(l Listed) bool { return len(l.Problems) > 0 }); broken != (at == "certificate") {
				t.Errorf("cut before the %s: listed %+v, keys %v", at, list, left)
			}
			before := map[string]string{}
			for _, file := range left {
				before[file] = string(check(os.ReadFile(file))(t))
			}
			f.step = ready
			part := filepath.Join(f.dir, ".region-us."+map[string]string{"key": "key", "certificate": "crt"}[at]+".tmp-1")
			if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := make(); err != nil {
				t.Fatalf("after a cut before the %s: %v", at, err)
			}
			for file, text := range before {
				if string(check(os.ReadFile(file))(t)) != text {
					t.Errorf("cut before the %s: private key %s was overwritten", at, file)
				}
			}
		}
		again(func() error { _, err := f.Init(mesh, Options{}); return err })
		again(func() error { _, err := f.Issue(RoleRegion, "us", Options{}); return err })
		if left, _ := filepath.Glob(filepath.Join(f.dir, ".*")); len(left) > 0 {
			t.Errorf("parts of files are left: %v", left)
		}
		fine(t, f, 2)
	}
}

// With --force a cut leaves a key whose certificate is the old one: the list
// says so, and the next --force heals it.
func TestFolderCutWhileReplacing(t *testing.T) {
	f := NewFolder(t.TempDir())
	check(f.Init(mesh, Options{}))(t)
	check(f.Issue(RoleRegion, "us", Options{}))(t)
	ready := f.step
	f.step = func(step string) error {
		if step == "certificate" {
			return errors.New("cut")
		}
		return nil
	}
	if _, err := f.Issue(RoleRegion, "us", Options{Replace: true}); err == nil {
		t.Fatal("not cut")
	}
	f.step = ready
	if list := check(f.List(time.Now()))(t); len(list[1].Problems) != 1 || !strings.Contains(list[1].Problems[0], "key is that of another") {
		t.Errorf("problems %v", list[1].Problems)
	}
	check(f.Issue(RoleRegion, "us", Options{Replace: true}))(t)
	fine(t, f, 2)
}

// Of many that make the same at once one does, and key and certificate match;
// with --force all do, one after the other.
func TestFolderManyAtOnce(t *testing.T) {
	for _, replace := range []bool{false, true} {
		dir := t.TempDir()
		var wait sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			wait.Go(func() {
				f := NewFolder(dir)
				if _, errs[i] = f.Init(mesh, Options{Replace: replace}); !replace && errs[i] == nil {
					_, errs[i] = f.Issue(RoleRegion, "us", Options{})
				}
			})
		}
		wait.Wait()
		made := 0
		for _, err := range errs {
			switch {
			case err == nil:
				made++
			case rhumb.KindOf(err) != rhumb.KindExists:
				t.Error(err)
			}
		}
		if want := map[bool]int{false: 1, true: len(errs)}[replace]; made != want {
			t.Errorf("replace %t: %d made it, want %d", replace, made, want)
		}
		fine(t, NewFolder(dir), map[bool]int{false: 2, true: 1}[replace])
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{file, filepath.Join(file, "certs"), locked} {
		if at == locked && os.Geteuid() == 0 {
			continue // root writes everywhere
		}
		_, err := NewFolder(at).Init(mesh, Options{})
		if rhumb.KindOf(err) != rhumb.KindForbidden || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v of kind %s", at, err, rhumb.KindOf(err))
		}
	}
	if left, _ := os.ReadDir(locked); os.Geteuid() != 0 && len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	absent := filepath.Join(dir, "absent")
	if _, err := NewFolder(absent).Issue(RoleRegion, "us", Options{}); rhumb.KindOf(err) != rhumb.KindNotFound || !strings.Contains(err.Error(), "rhumb certs init") {
		t.Errorf("no CA: %v", err)
	}
	if exists(absent) {
		t.Error("a directory was made for a certificate that no CA can sign")
	}
}

// The CA files are of two meshes, or its time is over: nothing is signed.
func TestFolderWithAWrongCA(t *testing.T) {
	f, other := NewFolder(t.TempDir()), NewFolder(t.TempDir())
	check(f.Init(mesh, Options{}))(t)
	check(other.Init(rhumb.UUID{9}, Options{}))(t)
	check(other.Issue(RoleRegion, "us", Options{}))(t)
	copyFile := func(name string) {
		if err := os.WriteFile(filepath.Join(f.dir, name), check(os.ReadFile(filepath.Join(other.dir, name)))(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyFile("region-us.crt")
	copyFile("region-us.key")
	if list := check(f.List(time.Now()))(t); len(list[1].Problems) != 1 || !strings.Contains(list[1].Problems[0], "another CA") {
		t.Errorf("problems %v", list[1].Problems)
	}
	copyFile("ca.key")
	if _, err := f.Issue(RoleRegion, "eu", Options{}); err == nil || !strings.Contains(err.Error(), "is not that of certificate") {
		t.Errorf("key of another CA: %v", err)
	}
	ended := NewFolder(t.TempDir())
	check(ended.Init(mesh, Options{Valid: time.Nanosecond}))(t)
	if _, err := ended.Issue(RoleRegion, "us", Options{}); rhumb.KindOf(err) != rhumb.KindForbidden || !strings.Contains(err.Error(), "ended at") {
		t.Errorf("CA that ended: %v", err)
	}
	if list := check(ended.List(time.Now()))(t); !slices.Equal(list[0].Problems, []string{"has ended"}) {
		t.Errorf("problems %v", list[0].Problems)
	}
}

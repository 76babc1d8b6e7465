package certs

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// shakes connects two regions of a folder, by the files as they are.
func shakes(t *testing.T, f *Folder, a, b rhumb.RegionName, caOf string) error {
	t.Helper()
	open := func(name rhumb.RegionName, ca string) *Source {
		cert, key := f.Files(RoleRegion, string(name))
		return check(Open(Files{CA: ca, Cert: cert, Key: key}))(t)
	}
	ca, _ := f.CAFiles()
	if caOf == "" {
		caOf = ca
	}
	_, serverErr, clientErr := shake(t, LinkServer(open(a, ca), mesh), LinkClient(open(b, caOf), mesh, a))
	return errors.Join(serverErr, clientErr)
}

// The whole way, cut before each file that is written and given again: at no moment
// two regions that have the folder's files refuse each other, and the next call
// finishes it.
func TestRollCutAnywhere(t *testing.T) {
	for cut := range 40 {
		f := NewFolder(t.TempDir())
		check(f.Init(mesh, Options{}))(t)
		check(f.Issue(RoleRegion, "us", Options{Hosts: []string{"us.example", "192.0.2.7"}}))(t)
		check(f.Issue(RoleRegion, "eu", Options{Valid: 48 * time.Hour}))(t)
		check(f.Issue(RoleClient, "probe", Options{Access: "viewer"}))(t)
		first := check(f.Roll())(t).Signer
		steps, wasCut := 0, false
		f.step = func(string) error {
			if steps++; steps == cut+1 {
				wasCut = true
				return errors.New("cut")
			}
			return nil
		}
		try := func(step func() (Rolled, error), stage Stage) {
			t.Helper()
			r, err := step()
			if err != nil {
				if !wasCut {
					t.Fatal(err)
				}
				if key := keyIsAhead(f); !key { // a leaf's key without its certificate is not for use
					if err := shakes(t, f, "us", "eu", ""); err != nil {
						t.Fatalf("cut %d: %v", cut, err)
					}
				}
				r = check(step())(t)
			}
			if r.Stage != stage {
				t.Fatalf("cut %d: stage %s, want %s", cut, r.Stage, stage)
			}
			if err := shakes(t, f, "us", "eu", ""); err != nil {
				t.Fatalf("cut %d, stage %s: %v", cut, stage, err)
			}
			fine(t, f, map[Stage]int{StageNone: 4, StageBegun: 6, StageIssue: 6}[stage])
		}
		try(func() (Rolled, error) { return f.BeginRoll(0) }, StageBegun)
		try(f.IssueRoll, StageIssue)
		try(f.FinishRoll, StageNone)
		last := check(f.Roll())(t)
		if last.Signer == first || len(last.Trusted) != 1 || last.Trusted[0] != last.Signer {
			t.Fatalf("cut %d: %+v", cut, last)
		}
		us := check(f.List(time.Now()))(t)
		i := slices.IndexFunc(us, func(l Listed) bool { return l.Name == "us" })
		if !slices.Equal(us[i].Hosts, []string{"us.example", "192.0.2.7"}) {
			t.Errorf("the names were lost: %v", us[i].Hosts)
		}
		if p := us[slices.IndexFunc(us, func(l Listed) bool { return l.Name == "probe" })]; p.Access != "viewer" {
			t.Errorf("the client's role was lost: %+v", p)
		}
		if left, _ := filepath.Glob(filepath.Join(f.dir, "ca-*")); len(left) > 0 {
			t.Errorf("cut %d: left are %v", cut, left)
		}
		if !wasCut {
			return // every place was cut
		}
	}
	t.Error("more places to cut than this test tries")
}

// keyIsAhead reports whether a certificate's key is another one's, as a cut between the
// two leaves it.
func keyIsAhead(f *Folder) bool {
	all, err := f.List(time.Now())
	return err != nil || slices.ContainsFunc(all, func(l Listed) bool {
		return slices.ContainsFunc(l.Problems, func(p string) bool { return strings.Contains(p, "key is that of another") })
	})
}

// A region that was not given the new files in time still connects while both CAs are
// trusted, and no longer after that.
func TestRollTrustsBothMeanwhile(t *testing.T) {
	f := NewFolder(t.TempDir())
	check(f.Init(mesh, Options{}))(t)
	check(f.Issue(RoleRegion, "us", Options{}))(t)
	check(f.Issue(RoleRegion, "eu", Options{}))(t)
	late := filepath.Join(t.TempDir(), "ca.crt")
	caFile, _ := f.CAFiles()
	keep := func() {
		if err := os.WriteFile(late, check(os.ReadFile(caFile))(t), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	for _, refused := range []func() (Rolled, error){f.IssueRoll} {
		if _, err := refused(); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("out of order: %v", err)
		}
	}
	check(f.BeginRoll(0))(t)
	if err := shakes(t, f, "us", "eu", late); err != nil { // eu trusts the old one only, which signed all
		t.Error(err)
	}
	if _, err := f.FinishRoll(); rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("finished before anything was issued: %v", err)
	}
	keep()
	check(f.IssueRoll())(t)
	if err := shakes(t, f, "us", "eu", late); err != nil {
		t.Error(err)
	}
	if _, err := f.BeginRoll(0); rhumb.KindOf(err) != rhumb.KindInvalid {
		t.Errorf("begun again in the middle: %v", err)
	}
	check(f.FinishRoll())(t)
	check(f.FinishRoll())(t) // a second time there is nothing to do
	check(f.BeginRoll(0))(t)
	check(f.IssueRoll())(t)
	check(f.FinishRoll())(t)
	if err := shakes(t, f, "us", "eu", late); err == nil {
		t.Error("a region that trusts a CA of long ago only is still taken")
	}
}

package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Tokens of the meshes below. mixed is the admin's in us, and in eu that of somebody who
// administers tenant shop: tokens are of each region's own file.
const (
	shopToken  = "shop-team-of-tenant-shop"
	mixedToken = "admin-of-us-and-not-of-eu"
	allToken   = "who-sees-all-of-the-mesh"
)

// cutMesh is us, which is asked, and eu. Both have run, and sa has not.
func cutMesh(t *testing.T) (us *admintest.Region, dir string) {
	t.Helper()
	us = admintest.New("us", 1)
	eu := admintest.New("eu", 2)
	var entries []admin.RegionEntry
	for _, r := range []*admintest.Region{us, eu} {
		role := admin.RoleAdmin
		if r == eu {
			role = admin.RoleTenant
		}
		tokens, err := admin.OpenTokens([]admin.Token{{Name: "shop", Role: admin.RoleTenant, Secret: shopToken},
			{Name: "mixed", Role: role, Secret: mixedToken}, {Name: "all", Role: admin.RoleAdmin, Secret: allToken}})
		if err != nil {
			t.Fatal(err)
		}
		cfg := r.Config()
		cfg.Tokens = tokens
		server, err := admin.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		http := httptest.NewServer(server.Handler())
		t.Cleanup(http.Close)
		if r == us {
			t.Setenv("RHUMB_ADDR", http.URL)
		}
		entries = append(entries, admin.RegionEntry{Name: r.Identity.Name, Number: r.Identity.Number, State: "active", Admin: []string{http.URL}})
		if _, err := r.Config().Documents.Writer().PutTenant(t.Context(), "shop", func(d *configstore.Tenant) error {
			d.AdminRoles = []string{"shop", "mixed"}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	w := us.Config().Documents.Writer()
	for _, e := range entries {
		if _, err := w.RegisterRegion(t.Context(), configstore.Region{Name: e.Name, DataUUID: rhumb.NewUUID()}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*admintest.Region{us, eu} {
		r.SetMesh(entries, []admin.Edge{{Tenant: "public", Namespace: "default", From: "eu", To: "us"}, {Tenant: "public", Namespace: "default", From: "us", To: "eu"}})
	}
	// Of the link from eu to us one partition is behind: it is not of tenant shop.
	link := admintest.Link(us)
	link.State = "flowing"
	link.Partitions = []admin.LinkPartition{{Out: true, Topic: rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}, Region: 2, State: "flowing",
		End: 100, Confirmed: 1, LagRecords: 99, Lag: time.Minute}}
	eu.SetLinks(link)
	for _, name := range []string{"RHUMB_CACERT", "RHUMB_CERT", "RHUMB_KEY"} {
		t.Setenv(name, "")
	}
	dir = filepath.Join(t.TempDir(), "certs")
	for _, args := range [][]string{{"init", "--mesh", rhumb.NewUUID().String()}, {"issue", "us", "eu"}, {"roll", "begin"}} {
		if code, _, errOut := command(t, append([]string{"certs", "--dir", dir}, args...)...); code != exitDone {
			t.Fatal(errOut)
		}
	}
	return us, dir
}

// said runs a command, and holds its exit code and one line of what it says to people.
func said(t *testing.T, want int, words string, args ...string) (stdout string) {
	t.Helper()
	code, out, errOut := command(t, args...)
	if code != want || !strings.Contains(errOut, words) || strings.Count(errOut, "\n") > 1 {
		t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", args, code, want, words, out, errOut)
	}
	return out
}

func rollStage(t *testing.T, dir string) certs.Stage {
	t.Helper()
	at, err := certs.NewFolder(dir).Roll()
	if err != nil {
		t.Fatal(err)
	}
	return at.Stage
}

// TestRollIsNotLedByACutList: who may not see the documents of regions sees none that
// lacks something; that is no word about any of them. The old CA stays.
func TestRollIsNotLedByACutList(t *testing.T) {
	us, dir := cutMesh(t)
	roll := func(step string) []string { return []string{"certs", "--dir", dir, "roll", step} }
	untold := func(words string) {
		t.Helper()
		for _, step := range []string{"status", "issue"} {
			said(t, exitUnknown, words, roll(step)...)
		}
		if at := rollStage(t, dir); at != certs.StageBegun {
			t.Fatalf("stage %s", at)
		}
	}
	t.Setenv("RHUMB_TOKEN", shopToken)
	untold("shows this caller what is of tenant shop only")
	t.Setenv("RHUMB_TOKEN", "nobody-knows-this-one-here")
	untold("cannot tell")
	t.Setenv("RHUMB_TOKEN", allToken)
	said(t, exitFailed, "", roll("status")...) // no region has the files
	said(t, exitFailed, "us, eu: not all that the step before made", roll("issue")...)
	said(t, exitDone, "", append(roll("issue"), "--unchecked")...)
	t.Setenv("RHUMB_TOKEN", shopToken)
	said(t, exitUnknown, "cannot tell: whether", roll("finish")...)
	if at := rollStage(t, dir); at != certs.StageIssue {
		t.Fatalf("stage %s", at)
	}
	t.Setenv("RHUMB_TOKEN", allToken)
	at, err := certs.NewFolder(dir).Roll()
	if err != nil {
		t.Fatal(err)
	}
	w := us.Config().Documents.Writer()
	for _, name := range []rhumb.RegionName{"us", "eu"} {
		if _, err := w.SetRegionCAs(t.Context(), name, at.Signer, at.Trusted); err != nil {
			t.Fatal(err)
		}
	}
	said(t, exitDone, "", roll("status")...)
	us.StoreDown() // all follow, as far as us knows; who joined since it does not
	_ = us.Config().ConfigStore.(*configstore.View).Refresh(t.Context())
	said(t, exitUnknown, "not current with the configuration store", roll("status")...)
	said(t, exitUnknown, "not current with the configuration store", roll("finish")...)
	if at := rollStage(t, dir); at != certs.StageIssue {
		t.Fatalf("stage %s", at)
	}
}

// TestRollWantsTheRegionThatAnswersInItsList: a list without it is not the list of all.
func TestRollWantsTheRegionThatAnswersInItsList(t *testing.T) {
	us, dir := cutMesh(t)
	t.Setenv("RHUMB_TOKEN", allToken)
	us.SetMesh([]admin.RegionEntry{{Name: "ap", Number: 9, State: "active"}}, nil)
	said(t, exitUnknown, "does not tell which CAs region us trusts", "certs", "--dir", dir, "roll", "status", "--addr", registeredOnly(t, us, "ap"))
}

// registeredOnly has the region's documents be those of regions that have never run.
func registeredOnly(t *testing.T, us *admintest.Region, names ...rhumb.RegionName) (url string) {
	t.Helper()
	other := admintest.New("us", 1)
	w := other.Config().Documents.Writer()
	for _, name := range names {
		if _, err := w.AddRegion(t.Context(), configstore.Region{Name: name}, 0); err != nil {
			t.Fatal(err)
		}
	}
	cfg := us.Config()
	cfg.Members = other.Config().Members
	server, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	http := httptest.NewServer(server.Handler())
	t.Cleanup(http.Close)
	return http.URL
}

// TestNothingIsConcludedFromACutList goes through what commands conclude of lists: that a
// region has caught up, is drained, has seen no higher number, sends nothing, is not there.
func TestNothingIsConcludedFromACutList(t *testing.T) {
	cutMesh(t)
	t.Setenv("RHUMB_TOKEN", mixedToken) // in eu it is shown what is of shop only
	out := said(t, exitUnknown, "", "region", "show", "us", "--wait", "1ms", "-o", "json")
	var shown regionAnswer
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.CaughtUp || !strings.Contains(shown.Sources[0].Error, "of tenant shop only") {
		t.Errorf("%v: %s", err, out)
	}
	said(t, exitDone, "region eu cannot be asked for the highest number that it has seen", "region", "register", "sa")
	said(t, exitUnknown, "of tenant shop only", "region", "drain", "eu")
	said(t, exitUnknown, "of tenant shop only", "verify", "us", "eu")
	plan := `{"tenants": {"public": {"namespaces": {"new": {"topology": {"full-mesh": ["us", "eu"]}}}}}}`
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	if out = said(t, exitUnknown, "", "topology", "plan", "-f", file); !strings.Contains(out, "is not known") || !strings.Contains(out, "of tenant shop only") {
		t.Errorf("plan: %s", out)
	}
	t.Setenv("RHUMB_TOKEN", shopToken)
	said(t, exitFailed, "cannot be told", "tenant", "show", "other")
	said(t, exitFailed, "cannot be told", "namespace", "show", "other/one")
	said(t, exitFailed, "cannot be told", "topology", "show", "other")
	said(t, exitFailed, "is not told to this caller", "region", "replace", "eu")
	for _, list := range []string{"topic list", "link list", "path list", "gap list", "link diverged", "tenant list", "namespace list", "topology show", "topology export"} {
		said(t, exitDone, "note: http://", strings.Fields(list)...)
	}
	var rows []regionRow
	if err := json.Unmarshal([]byte(said(t, exitDone, "are not told to this caller", "region", "list", "-o", "json")), &rows); err != nil || len(rows) != 2 || !rows[0].Hidden {
		t.Errorf("%v, %+v", err, rows)
	}
	t.Setenv("RHUMB_TOKEN", allToken)
	said(t, exitDone, "", "region", "list")
	said(t, exitFailed, "exists, and is left as it is", "topology", "export", "-f", file)
	if kept, err := os.ReadFile(file); err != nil || string(kept) != plan {
		t.Errorf("the file is now %s, %v", kept, err)
	}
	said(t, exitDone, "", "topology", "export", "--force", "-f", file)
	if kept, err := os.ReadFile(file); err != nil || string(kept) == plan {
		t.Errorf("the file is still %s, %v", kept, err)
	}
}

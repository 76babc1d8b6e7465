package cli

import (
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestRollWaitsForEveryRegion: a step is refused while a region says that it has not got
// what the step before it made; regions that never ran are not waited for.
func TestRollWaitsForEveryRegion(t *testing.T) {
	us := admintest.New("us", 1)
	us.SetMesh([]admin.RegionEntry{{Name: "us", Number: 1, State: "active"}, {Name: "eu", Number: 2, State: "active"}, {Name: "sa", Number: 3, State: "active"}}, nil)
	api, err := admin.New(us.Config())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	t.Setenv("RHUMB_ADDR", server.URL)
	w := us.Config().Documents.Writer()
	for _, name := range []rhumb.RegionName{"us", "eu"} {
		if _, err := w.RegisterRegion(t.Context(), configstore.Region{Name: name, DataUUID: rhumb.NewUUID()}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.AddRegion(t.Context(), configstore.Region{Name: "sa"}, 0); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "certs")
	run := func(want int, words string, args ...string) {
		t.Helper()
		code, out, errOut := command(t, append([]string{"certs", "--dir", dir}, args...)...)
		if code != want || !strings.Contains(out+errOut, words) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s%s", args, code, want, words, out, errOut)
		}
	}
	follows := func(name rhumb.RegionName) {
		t.Helper()
		r, err := certs.NewFolder(dir).Roll()
		if err == nil {
			_, err = w.SetRegionCAs(t.Context(), name, r.Signer, r.Trusted)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run(exitDone, "made", "init", "--mesh", rhumb.NewUUID().String())
	run(exitDone, "made", "issue", "us", "eu")
	run(exitFailed, "begin with 'rhumb certs roll begin'", "roll", "issue")
	run(exitDone, "ca.crt holds 2 CAs", "roll", "begin")
	run(exitFailed, "false", "roll", "status")
	run(exitFailed, "us, eu: not all that the step before made is in use there", "roll", "issue")
	follows("us")
	run(exitFailed, "rhumb: eu: not all", "roll", "issue")
	follows("eu")
	run(exitDone, "true", "roll", "status")
	run(exitDone, "region-eu.crt", "roll", "issue")
	run(exitFailed, "us, eu: not all", "roll", "finish") // they trust both, and show the old certificates
	follows("us")
	run(exitDone, "ca.crt holds 1 CA;", "roll", "finish", "--unchecked")
	run(exitFailed, "false", "roll", "status") // us shows a new certificate, and trusts the old CA still
	follows("us")
	run(exitFailed, "false", "roll", "status")
	follows("eu")
	run(exitDone, "stage none", "roll", "status")
	run(exitDone, "no roll-over is under way: ca.crt holds one CA", "roll", "finish")
	run(exitDone, "region-us.crt", "show", filepath.Join(dir, "ca.crt"), filepath.Join(dir, "region-us.crt"))
	run(exitFailed, "no such file", "show", filepath.Join(dir, "nowhere.crt"))
}

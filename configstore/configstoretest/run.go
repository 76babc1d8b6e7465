package configstoretest

import (
	"context"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
)

// Backend is one fresh, empty store under test. What a backend cannot do is nil;
// the tests that need it are skipped.
type Backend struct {
	// Open gives one more handle onto the same documents.
	Open func(t *testing.T) configstore.Store
	// SetDown makes every call of every handle fail, and ends it.
	SetDown func(down bool)
	// SetSilent makes watches tell nothing without an error, and ends it.
	SetSilent func(silent bool)
	// Backup copies all documents; the function that it gives puts the copy back
	// behind the backs of all handles.
	Backup func() (restore func())
}

// Run runs the contract against a backend; fresh makes an empty one for each test.
// A test that is alone takes the whole server behind the backend down or back: no
// other test may use it.
func Run(t *testing.T, fresh func(t *testing.T, alone bool) Backend) {
	for _, c := range []struct {
		name  string
		alone bool
		test  func(*testing.T, Backend)
	}{
		{"absent documents", false, testAbsent},
		{"what was put is what is got", false, testRoundTrip},
		{"a put needs the next version", false, testVersions},
		{"what cannot be stored is refused", false, testRefused},
		{"of many puts of one version one wins", false, testOneWinner},
		{"two admins at once lose no change", false, testTwoAdmins},
		{"a watch tells of changes", false, testWatch},
		{"a watch goes on after the store was down", true, testWatchDown},
		{"close ends watches and calls", false, testClose},
		{"unknown fields survive", false, testUnknownFields},
		{"one mesh is made", false, testOneMesh},
		{"region numbers differ", false, testNumbers},
		{"a view follows the store", false, testViewFollows},
		{"a first start needs the store", true, testFirstStart},
		{"a view lives without the store", true, testViewDown},
		{"a silent watch is caught", false, testSilent},
		{"a store that went back is refused", true, testWentBack},
		{"a store with other content is refused", true, testOtherContent},
		{"a store of another mesh is refused", false, testOtherMesh},
		{"what a store lost is put back", true, testRestore},
		{"each region puts back what it saw", true, testRestoreHighest},
		{"other content is overruled by the next version", true, testRestoreOtherContent},
		{"a document that changed meanwhile is not replaced", false, testRestoreConflict},
		{"many documents are put back", false, testRestoreMany},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, fresh(t, c.alone))
		})
	}
}

// patience is how long a test waits for what must happen. It is generous: a machine
// may run many such tests at once, each with a server of its own.
const patience = 2 * time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// must fails the test on an error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// document makes a document of a version, with one more field.
func document(t *testing.T, key, version, more string) configstore.Document {
	t.Helper()
	d, err := configstore.ParseDocument(key, []byte(`{"version":`+version+`,"updated_at":"2026-01-02T03:04:05Z","updated_by":"test"`+more+`}`))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// eventually waits until cond holds; it is asked again whenever the view changes
// and from time to time.
func eventually(t *testing.T, v *configstore.View, what string, cond func() bool) {
	t.Helper()
	changed := make(chan struct{}, 1)
	if v != nil {
		defer v.Subscribe(func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})()
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	ctx := testContext(t)
	for !cond() {
		select {
		case <-ctx.Done():
			if v != nil {
				t.Fatalf("never: %s; status %+v", what, v.Status())
			}
			t.Fatalf("never: %s", what)
		case <-changed:
		case <-again.C:
		}
	}
}

package configstoretest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func testAbsent(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	if _, err := s.Get(ctx, configstore.MeshKey); !errors.Is(err, configstore.ErrNotFound) || rhumb.KindOf(err) != rhumb.KindNotFound {
		t.Fatalf("get of an absent document: %v", err)
	}
	if docs := must(s.List(ctx, configstore.Prefix))(t); len(docs) != 0 {
		t.Fatalf("a fresh store lists %v", docs)
	}
}

func testRoundTrip(t *testing.T, b Backend) {
	ctx, s, other := testContext(t), b.Open(t), b.Open(t)
	long := strings.Repeat("Topic-", 41) + "x" // 247 bytes, mostly lower case; the longest file name
	keys := []string{
		"rhumb/v1/mesh", "rhumb/v1/regions/us", "rhumb/v1/regions/us-2", "rhumb/v1/tenants/A", "rhumb/v1/tenants/a",
		"rhumb/v1/tenants/a.json", "rhumb/v1/topics/t/n/" + strings.ToUpper(long), "rhumb/v1/topics/t/n/" + long,
	}
	want := map[string]configstore.Document{}
	for i, key := range keys {
		d := document(t, key, "1", fmt.Sprintf(`,"big":18446744073709551615,"text":"<é\u2028>","i":%d`, i))
		if err := s.Put(ctx, d); err != nil {
			t.Fatal(err)
		}
		want[key] = d
	}
	docs := must(other.List(ctx, configstore.Prefix))(t)
	if len(docs) != len(keys) {
		t.Fatalf("%d documents, want %d", len(docs), len(keys))
	}
	for i, d := range docs {
		if i > 0 && docs[i-1].Key >= d.Key {
			t.Fatalf("%s is listed before %s", docs[i-1].Key, d.Key)
		}
		got := must(other.Get(ctx, d.Key))(t)
		if string(d.JSON) != string(want[d.Key].JSON) || got.Hash() != want[d.Key].Hash() || got.Version != 1 || got.UpdatedBy != "test" {
			t.Fatalf("%s: got %s, want %s", d.Key, d.JSON, want[d.Key].JSON)
		}
	}
	if docs := must(other.List(ctx, "rhumb/v1/regions/us"))(t); len(docs) != 2 {
		t.Fatalf("a prefix that is no whole name lists %d documents, want 2", len(docs))
	}
}

func testVersions(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	key := configstore.TenantKey("t")
	for _, step := range []struct {
		version, more string
		stored        bool
	}{
		{"2", "", false}, {"1", "", true}, {"1", "", false}, {"3", "", false},
		{"2", `,"deleted":true`, true}, {"1", "", false}, {"2", "", false}, {"3", `,"x":1`, true},
	} {
		err := s.Put(ctx, document(t, key, step.version, step.more))
		if step.stored && err != nil {
			t.Fatalf("put of version %s: %v", step.version, err)
		}
		if !step.stored && !errors.Is(err, configstore.ErrConflict) {
			t.Fatalf("put of version %s gives %v, want a conflict", step.version, err)
		}
		if step.version == "2" && step.stored {
			if d := must(s.Get(ctx, key))(t); !d.Deleted {
				t.Fatal("a tombstone is not got as one")
			}
		}
	}
}

func testRefused(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	good := document(t, configstore.TenantKey("t"), "1", "")
	for name, change := range map[string]func(*configstore.Document){
		"a key outside of the tree":    func(d *configstore.Document) { d.Key = "other/x" },
		"a key that climbs":            func(d *configstore.Document) { d.Key = "rhumb/v1/../../x" },
		"another version than inside":  func(d *configstore.Document) { d.Version = 2 },
		"no JSON":                      func(d *configstore.Document) { d.JSON = []byte("{") },
		"JSON that is not canonical":   func(d *configstore.Document) { d.JSON = append([]byte(" "), d.JSON...) },
		"a document without a version": func(d *configstore.Document) { d.JSON = []byte("{}") },
	} {
		d := good
		change(&d)
		if err := s.Put(ctx, d); rhumb.KindOf(err) != rhumb.KindInvalid {
			t.Errorf("%s: put gives %v, want kind invalid", name, err)
		}
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(ended, good); !errors.Is(err, context.Canceled) {
		t.Errorf("put after the context ended: %v", err)
	}
	if docs := must(s.List(ctx, configstore.Prefix))(t); len(docs) != 0 {
		t.Errorf("refused puts left %v", docs)
	}
}

func testOneWinner(t *testing.T, b Backend) {
	ctx := testContext(t)
	const writers = 8
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		s, d := b.Open(t), document(t, configstore.TenantKey("t"), "1", fmt.Sprintf(`,"by":%d`, i))
		wg.Go(func() { errs[i] = s.Put(ctx, d) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Fatalf("writers %d and %d both stored version 1", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, configstore.ErrConflict):
			t.Fatalf("writer %d: %v", i, err)
		}
	}
	d := must(b.Open(t).Get(ctx, configstore.TenantKey("t")))(t)
	if want := document(t, d.Key, "1", fmt.Sprintf(`,"by":%d`, won)); d.Hash() != want.Hash() {
		t.Fatalf("writer %d won, but %s is stored", won, d.JSON)
	}
}

func testTwoAdmins(t *testing.T, b Backend) {
	ctx := testContext(t)
	topic := rhumb.Topic{Tenant: "t", Namespace: "n", Name: "x"}
	const admins, changes = 4, 15
	var wg sync.WaitGroup
	for i := range admins {
		w := configstore.NewWriter(b.Open(t), fmt.Sprintf("admin-%d", i))
		wg.Go(func() {
			for range changes {
				if _, err := w.CountDeletion(ctx, topic); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	d := must(b.Open(t).Get(ctx, configstore.TopicKey(topic)))(t)
	if d.Version != admins*changes || !strings.Contains(string(d.JSON), fmt.Sprintf(`"deletions":%d`, admins*changes)) {
		t.Fatalf("after %d changes: %s", admins*changes, d.JSON)
	}
}

func testWatch(t *testing.T, b Backend) {
	ctx, s, other := testContext(t), b.Open(t), b.Open(t)
	watch, stop := context.WithCancelCause(ctx)
	seen, ended := make(chan []configstore.Document, 100), make(chan error, 1)
	go func() {
		ended <- s.Watch(watch, configstore.TenantsPrefix, func(docs []configstore.Document) { seen <- docs })
	}()
	expect := func(versions ...uint64) {
		t.Helper()
		for {
			select {
			case docs := <-seen:
				if len(docs) == len(versions) && (len(docs) == 0 || docs[0].Version == versions[0]) {
					return
				}
			case <-ctx.Done():
				t.Fatalf("the watch never told of versions %v", versions)
			}
		}
	}
	expect()
	key := configstore.TenantKey("t")
	for i, step := range []struct {
		by   configstore.Store
		more string
	}{{s, ""}, {other, ""}, {other, `,"deleted":true`}} {
		if err := step.by.Put(ctx, document(t, configstore.RegionKey("us"), fmt.Sprint(i+1), "")); err != nil {
			t.Fatal(err)
		}
		if err := step.by.Put(ctx, document(t, key, fmt.Sprint(i+1), step.more)); err != nil {
			t.Fatal(err)
		}
		expect(uint64(i + 1))
	}
	why := errors.New("enough")
	stop(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Fatalf("the watch ended with %v, want its context's cause", err)
	}
}

func testClose(t *testing.T, b Backend) {
	ctx, s := testContext(t), b.Open(t)
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, configstore.Prefix, func([]configstore.Document) { started <- struct{}{} })
	}()
	<-started
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, configstore.ErrClosed) {
		t.Fatalf("the watch ended with %v", err)
	}
	if _, err := s.List(ctx, configstore.Prefix); !errors.Is(err, configstore.ErrClosed) {
		t.Fatalf("list after close: %v", err)
	}
	if err := s.Put(ctx, document(t, configstore.MeshKey, "1", "")); !errors.Is(err, configstore.ErrClosed) {
		t.Fatalf("put after close: %v", err)
	}
}

// testWatchDown: whether a watch ends or goes on when the store goes down is the
// backend's business; whoever starts it again if it ended hears of later changes.
func testWatchDown(t *testing.T, b Backend) {
	if b.SetDown == nil {
		t.Skip("this backend cannot be down")
	}
	ctx, s := testContext(t), b.Open(t)
	watch, stop := context.WithCancel(ctx)
	seen, ended := make(chan uint64, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for watch.Err() == nil {
			_ = s.Watch(watch, configstore.TenantsPrefix, func(docs []configstore.Document) {
				if len(docs) > 0 {
					seen <- docs[0].Version
				}
			})
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	expect := func(version uint64) {
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
	key := configstore.TenantKey("t")
	if err := s.Put(ctx, document(t, key, "1", "")); err != nil {
		t.Fatal(err)
	}
	expect(1)
	b.SetDown(true)
	if err := s.Put(ctx, document(t, key, "2", "")); rhumb.KindOf(err) != rhumb.KindUnavailable {
		t.Fatalf("a put while the store is down: %v", err)
	}
	b.SetDown(false)
	if err := s.Put(ctx, document(t, key, "2", "")); err != nil {
		t.Fatal(err)
	}
	expect(2)
}

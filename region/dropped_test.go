package region

import (
	"reflect"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestDropsAreKept holds what is kept of a drop to what is read of it, and what no drop is
// to nothing: settings of another version must not stop a region.
func TestDropsAreKept(t *testing.T) {
	d := BacklogDrop{Topic: rhumb.Topic{Tenant: "acme", Namespace: "shop", Name: "orders"}, Partition: 3, From: 7, To: 9, Missing: []rhumb.RegionName{"eu"},
		Reason: "late", At: time.UnixMilli(1_700_000_000_001), Since: time.UnixMilli(1_700_000_000_000), Records: 12}
	text, err := d.text()
	if err != nil {
		t.Fatal(err)
	}
	if got := readDrop(text); !reflect.DeepEqual(got, &d) {
		t.Errorf("kept %+v, read %+v", d, got)
	}
	for _, bad := range []string{"", "{", "[]", `{"topic": "a b"}`, `{"topic": 7}`} {
		if got := readDrop(bad); got != nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzReadDrop(f *testing.F) {
	f.Add(`{"topic":"persistent://a/b/c","from":1,"to":2,"at":3}`)
	f.Fuzz(func(t *testing.T, text string) {
		d := readDrop(text)
		if d == nil {
			return
		}
		again, err := d.text()
		if err != nil {
			t.Fatal(err)
		}
		if got := readDrop(again); !reflect.DeepEqual(got, d) {
			t.Errorf("%q: %+v, then %+v", text, d, got)
		}
	})
}

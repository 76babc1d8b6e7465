package nearest

import (
	"slices"
	"strings"
	"testing"
)

func itself(name *string) string { return *name }

func TestNamesThatWereMeant(t *testing.T) {
	known := strings.Fields("orders order letters acme/shop/orders acme/shop/carts retention.ms retention.bytes us eu ap")
	for _, c := range []struct {
		typed, want string
	}{
		{"ordrs", "orders order"},
		{"odrers", "orders order"},
		{"Orders", "orders order"},
		{"acme/shop/cart", "acme/shop/carts"},
		{"acme/shpo/orders", "acme/shop/orders"},
		{"retention", "retention.ms retention.bytes"},
		{"sus", "us"},
		{"nothing-like-it", ""},
		{"", ""},
	} {
		if got := strings.Join(Names(c.typed, slices.Values(known)), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.typed, got, c.want)
		}
	}
	if got := Hint("ordrs", known, itself); got != " (nearest: orders, order)" {
		t.Errorf("hint %q", got)
	}
	if got := Hint("zzzz", known, itself); got != "" {
		t.Errorf("hint %q where nothing is alike", got)
	}
}

// TestAtMostThreeNames: a name like thousands of others, as topics by number are, does not
// list them.
func TestAtMostThreeNames(t *testing.T) {
	var known []string
	for range 1000 {
		known = append(known, "orders-1", "orders-2", "orders-3", "orders-4", "orders-5")
	}
	if got := Names("orders-0", slices.Values(known)); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// FuzzDistance holds it to what any distance keeps, on words that fuzzing makes of
// a small alphabet, within its limit.
func FuzzDistance(f *testing.F) {
	f.Add("orders", "odrers")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > 64 || len(b) > 64 {
			return
		}
		whole := max(len(a), len(b))
		d := distance(a, b, whole)
		if d != distance(b, a, whole) || (d == 0) != (a == b) || d > whole {
			t.Errorf("%q and %q: %d, the other way %d", a, b, d, distance(b, a, whole))
		}
		if near := distance(a, b, 2); d <= 2 && near != d || d > 2 && near <= 2 {
			t.Errorf("%q and %q: %d, within two %d", a, b, d, near)
		}
	})
}

package rhumb

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func TestParseTopic(t *testing.T) {
	long := strings.Repeat("x", 249)
	good := map[string]Topic{
		"orders":                         {"public", "default", "orders"},
		long:                             {"public", "default", TopicName(long)},
		"persistent://acme/eu.1/orders":  {"acme", "eu.1", "orders"},
		"acme/eu/orders":                 {"acme", "eu", "orders"},
		"a-partition-x":                  {"public", "default", "a-partition-x"},
		"persistent://public/default/_x": {"public", "default", "_x"},
	}
	for in, want := range good {
		got, err := ParseTopic(in)
		if err != nil || got != want {
			t.Errorf("ParseTopic(%q) = %v, %v; want %v", in, got, err, want)
		}
		if again, err := ParseTopic(got.String()); err != nil || again != want {
			t.Errorf("%q does not survive its full name: %v, %v", in, again, err)
		}
		if again, err := ParseTopic(got.Short()); err != nil || again != want {
			t.Errorf("%q does not survive its short name: %v, %v", in, again, err)
		}
	}
	for _, in := range []string{"", ".", "..", "a b", "a/b", "a/b/c/d", long + "x", "o-partition-3", "persistent://o",
		"persistent://a/b/", "../x/y", "a/../y", "ö", "a\x00"} {
		if got, err := ParseTopic(in); KindOf(err) != KindInvalid {
			t.Errorf("ParseTopic(%q) = %v, %v; want an error of kind invalid", in, got, err)
		}
	}
}

func TestRegionNames(t *testing.T) {
	for _, good := range []RegionName{"us", "eu-west-1", RegionName("a" + strings.Repeat("b", 31))} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []RegionName{"", "Us", "1us", "-x", "u_s", "a.b", RegionName(strings.Repeat("b", 33))} {
		if bad.Validate() == nil {
			t.Errorf("region %q was accepted", bad)
		}
	}
	for n, ok := range map[RegionNumber]bool{0: false, 1: true, MaxRegionNumber: true, MaxRegionNumber + 1: false} {
		if got := n.Validate() == nil; got != ok {
			t.Errorf("region number %d: accepted %v, want %v", n, got, ok)
		}
	}
}

func TestIdsSurviveText(t *testing.T) {
	u, l := NewUUID(), NewLife()
	var u2 UUID
	var l2 Life
	ut, _ := u.MarshalText()
	lt, _ := l.MarshalText()
	if err := u2.UnmarshalText(ut); err != nil || u2 != u {
		t.Errorf("uuid %s became %s: %v", u, u2, err)
	}
	if err := l2.UnmarshalText(lt); err != nil || l2 != l {
		t.Errorf("life %s became %s: %v", l, l2, err)
	}
	for _, bad := range []string{"", "zz", u.String() + "0", strings.Repeat("z", 32)} {
		if u2.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("uuid %q was accepted", bad)
		}
	}
}

func TestErrorKindsSurviveWrapping(t *testing.T) {
	cause := errors.New("disk on fire")
	err := fmt.Errorf("append: %w", Errorf(KindUnavailable, "shard 3: %w", cause))
	if KindOf(err) != KindUnavailable || !errors.Is(err, cause) || !KindOf(err).Retriable() {
		t.Errorf("%v: kind %v", err, KindOf(err))
	}
	late := fmt.Errorf("asking: %w", context.DeadlineExceeded)
	if KindOf(late) != KindTimeout || KindOf(Errorf(KindNotFound, "%w", late)) != KindNotFound {
		t.Errorf("%v: kind %v", late, KindOf(late))
	}
	if KindOf(cause) != KindInternal || KindInternal.Retriable() {
		t.Error("an error without a kind must be internal and not retriable")
	}
	for k := KindInternal; int(k) < len(kindNames); k++ {
		if strings.HasPrefix(k.String(), "kind-") || k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func TestGenerationOrder(t *testing.T) {
	a, b, c := Generation{1, 2}, Generation{2, 1}, Generation{2, 3}
	if !a.Less(b) || !b.Less(c) || c.Less(a) || a.Less(a) {
		t.Error("generations must order by number, then region")
	}
}

// TestNamesAreThoseOfThePattern compares the check of names, which is written by hand,
// with the patterns that define them.
func TestNamesAreThoseOfThePattern(t *testing.T) {
	scope, topic := regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`), regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	part := regexp.MustCompile(`-partition-[0-9]+$`)
	names := []string{"", ".", "..", "...", "a\n", "é", "a b", "a/b", "\x00", "a-partition-1", "a-partition-", "-partition-7", "a-partition-1x", "partition-1", "a-partition-12345"}
	for b := range 256 {
		names = append(names, string([]byte{byte(b)}), "x"+string([]byte{byte(b)}), string([]byte{byte(b)})+"x")
	}
	for _, n := range []int{63, 64, 65, 248, 249, 250} {
		names = append(names, strings.Repeat("n", n))
	}
	for _, n := range names {
		dots := n == "." || n == ".."
		if got, want := Tenant(n).Validate() == nil, scope.MatchString(n) && !dots; got != want {
			t.Errorf("tenant %q is legal: %v, want %v", n, got, want)
		}
		if got, want := TopicName(n).Validate() == nil, topic.MatchString(n) && !dots && !part.MatchString(n); got != want {
			t.Errorf("topic %q is legal: %v, want %v", n, got, want)
		}
	}
}

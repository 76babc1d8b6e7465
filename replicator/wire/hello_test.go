package wire

import (
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestAgree(t *testing.T) {
	us := Hello{MinVersion: 1, MaxVersion: 3, Number: 1, Name: "us", Mesh: testMesh, Data: rhumb.UUID{1}, Optional: 0b0110}
	eu := Hello{MinVersion: 2, MaxVersion: 5, Number: 2, Name: "eu", Mesh: testMesh, Data: rhumb.UUID{2}, Optional: 0b1010, Required: 0b0100}
	a, err := Agree(&us, &eu)
	b, err2 := Agree(&eu, &us)
	if err != nil || err2 != nil || a != b || a != (Agreement{Version: 3, Features: 0b0110}) {
		t.Errorf("agreed on %+v and %+v, %v, %v", a, b, err, err2)
	}
	for name, c := range map[string]struct {
		change func(*Hello)
		kind   rhumb.Kind
	}{
		"other mesh":       {func(h *Hello) { h.Mesh[0]++ }, rhumb.KindForbidden},
		"itself":           {func(h *Hello) { h.Data = us.Data }, rhumb.KindForbidden},
		"our name":         {func(h *Hello) { h.Name = "us" }, rhumb.KindForbidden},
		"our number":       {func(h *Hello) { h.Number = 1 }, rhumb.KindForbidden},
		"illegal name":     {func(h *Hello) { h.Name = "EU" }, rhumb.KindInvalid},
		"no number":        {func(h *Hello) { h.Number = 0 }, rhumb.KindInvalid},
		"too new":          {func(h *Hello) { h.MinVersion = 4 }, rhumb.KindUnsupported},
		"too old":          {func(h *Hello) { h.MinVersion, h.MaxVersion = 0, 0 }, rhumb.KindUnsupported},
		"required feature": {func(h *Hello) { h.Required = 0b1000 }, rhumb.KindUnsupported},
	} {
		peer := eu
		c.change(&peer)
		if _, err := Agree(&us, &peer); rhumb.KindOf(err) != c.kind || err == nil {
			t.Errorf("%s: %v, want %s", name, err, c.kind)
		}
	}
	strict := us
	strict.Required = 1
	if _, err := Agree(&strict, &eu); rhumb.KindOf(err) != rhumb.KindUnsupported {
		t.Errorf("a feature that we require and they lack: %v", err)
	}
}

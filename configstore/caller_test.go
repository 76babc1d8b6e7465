package configstore_test

import (
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
)

// TestDocumentsSayOnWhoseBehalf: who called is in the version that was written for him,
// and in no later one, also where an older binary kept the field that it does not know.
func TestDocumentsSayOnWhoseBehalf(t *testing.T) {
	a := small(t)
	edit := func(roles ...string) func(*configstore.Tenant) error {
		return func(t *configstore.Tenant) error { t.AdminRoles = roles; return nil }
	}
	ctx := configstore.WithCaller(t.Context(), "ann")
	doc, err := a.PutTenant(ctx, "acme", edit("x"))
	a.ok(err)
	if doc.UpdatedCaller != (configstore.Caller{Name: "ann", Version: doc.Version}) || doc.Who() != "ann, test" {
		t.Errorf("%+v", doc.Meta)
	}
	again, err := a.PutTenant(configstore.WithCaller(t.Context(), "bob"), "acme", edit("x"))
	a.ok(err)
	if again.Version != doc.Version || again.Who() != "ann, test" {
		t.Errorf("nothing changed: %+v", again.Meta)
	}
	_, err = a.PutNamespace(ctx, "acme", "n", func(*configstore.Namespace) error { return nil })
	a.ok(err)
	a.put(configstore.TenantKey("acme"), `,"updated_caller":{"name":"ann","version":2}`) // as an older binary does
	kept, err := a.PutTenant(t.Context(), "acme", func(now *configstore.Tenant) error {
		if now.UpdatedCaller.Name != "" || now.Who() != "newer" {
			t.Errorf("ann did not write %+v", now.Meta)
		}
		now.AdminRoles = []string{"y"}
		return nil
	})
	a.ok(err)
	if kept.Who() != "test" {
		t.Errorf("nobody's: %+v", kept.Meta)
	}
	long, err := a.PutTenant(configstore.WithCaller(t.Context(), strings.Repeat("ü", 400)), "acme", edit("z"))
	a.ok(err)
	if len(long.UpdatedCaller.Name) > 300 {
		t.Errorf("%d bytes", len(long.UpdatedCaller.Name))
	}
	p := a.plan(fanIn, false)
	_, err = a.PutTenant(configstore.WithCaller(t.Context(), "eve"), "acme", edit("w"))
	a.ok(err)
	_, err = a.ApplyTopology(t.Context(), a.file(fanIn), false, p.Base)
	if err == nil || !strings.Contains(err.Error(), "by eve, test") {
		t.Errorf("%v names nobody", err)
	}
}

package configstore_test

import (
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

var shop = rhumb.Space{Tenant: "acme", Namespace: "shop"}

func withShop(t *testing.T) admin {
	a := newAdmin(t)
	a.ok(a.tenant("acme"))
	_, err := a.PutNamespace(t.Context(), "acme", "shop", func(*configstore.Namespace) error { return nil })
	a.ok(err)
	return a
}

func (a admin) user(name rhumb.UserName, edit func(*configstore.User)) error {
	_, err := a.PutUser(a.t.Context(), name, func(u *configstore.User) error { edit(u); return nil })
	return err
}

func TestUsersAreChecked(t *testing.T) {
	a := withShop(t)
	other := rhumb.Space{Tenant: "acme", Namespace: "other"}
	grant := func(s ...rhumb.Space) func(*configstore.User) {
		return func(u *configstore.User) { u.Grants = s }
	}
	a.ok(a.user("alice", grant(shop, rhumb.DefaultSpace)))
	a.ok(a.user("acme/shop", grant(shop)))
	a.refused(a.user("bob", grant(other)), rhumb.KindInvalid, "users/bob", "grants[0]", "acme/other does not exist")
	a.refused(a.user("bob", grant(shop, shop)), rhumb.KindInvalid, "stands twice")
	a.refused(a.user("bob", func(u *configstore.User) { u.Home = shop }), rhumb.KindInvalid, "home", "not among the grants")
	a.refused(a.user("bob", func(u *configstore.User) { u.Scram.SHA256 = &scram.Verifier{Iterations: 1} }), rhumb.KindInvalid, "scram")
	a.refused(a.user("b@b", grant()), rhumb.KindInvalid, "b@b")
	a.refused(a.user("a/b/c", grant()), rhumb.KindInvalid)
	// A namespace that goes away does not make its users unchangeable.
	a.ok(a.DeleteNamespace(t.Context(), "acme", "shop"))
	a.ok(a.user("alice", func(u *configstore.User) { u.Admin = true }))
}

// Nothing of a password is left when its user is gone, in no version of the
// document that a store gives.
func TestDeletedUserKeepsNoVerifier(t *testing.T) {
	a := withShop(t)
	v, err := scram.New(scram.SHA256, "secret", 0)
	a.ok(err)
	a.ok(a.user("alice", func(u *configstore.User) { u.Scram.Set(scram.SHA256, &v) }))
	a.ok(a.DeleteUser(t.Context(), "alice"))
	d, err := a.store.Get(t.Context(), configstore.UserKey("alice"))
	a.ok(err)
	if !d.Deleted || strings.Contains(string(d.JSON), "stored_key") {
		t.Fatalf("%s", d.JSON)
	}
	a.refused(a.DeleteUser(t.Context(), "alice"), rhumb.KindNotFound)
	a.ok(a.user("alice", func(*configstore.User) {}))
}

func TestViewShowsUsers(t *testing.T) {
	a := withShop(t)
	view, err := configstore.OpenView(t.Context(), configstore.ViewConfig{Store: a.store, Keeper: &configstore.MemoryKeeper{}})
	a.ok(err)
	w := view.Writer("test")
	if _, err := w.PutUser(t.Context(), "alice", func(u *configstore.User) error { u.Grants = []rhumb.Space{shop}; return nil }); err != nil {
		t.Fatal(err)
	}
	u, ok := view.User("alice")
	if !ok || u.HomeSpace() != shop || !u.May(shop) || u.May(rhumb.DefaultSpace) || len(view.Users()) != 1 {
		t.Fatalf("%+v, %v", u, ok)
	}
	a.ok(w.DeleteUser(t.Context(), "alice"))
	if _, ok := view.User("alice"); ok || len(view.Users()) != 0 {
		t.Fatal("a deleted user is shown")
	}
}

// A user that is named as the tenant of another lies beside it, not above it.
func TestUsersOfOneAndTwoElementsInADirectory(t *testing.T) {
	s, err := embedded.Open(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := configstore.NewWriter(s, "test")
	for _, name := range []rhumb.UserName{"acme", "acme/shop", "acme/acme"} {
		if _, err := w.PutUser(t.Context(), name, func(*configstore.User) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if docs, err := s.List(t.Context(), configstore.UsersPrefix); err != nil || len(docs) != 3 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
}

func TestHomeOfUsers(t *testing.T) {
	for want, u := range map[rhumb.Space]configstore.User{
		{}:                 {},
		rhumb.DefaultSpace: {Admin: true},
		shop:               {Grants: []rhumb.Space{shop, rhumb.DefaultSpace}},
		{Tenant: "acme", Namespace: "b"}: {Grants: []rhumb.Space{shop, {Tenant: "acme", Namespace: "b"}},
			Home: rhumb.Space{Tenant: "acme", Namespace: "b"}},
	} {
		if got := u.HomeSpace(); got != want {
			t.Errorf("%+v is at home in %s, want %s", u, got, want)
		}
	}
}

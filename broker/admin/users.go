package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

// Users is what the API needs of the mesh's users. Errors carry kinds.
type Users interface {
	// Users gives all users by name.
	Users() []configstore.User
	// PutUser creates or changes a user. What edit returns is returned.
	PutUser(ctx context.Context, name rhumb.UserName, edit func(*configstore.User) error) (configstore.User, error)
	// DeleteUser deletes a user, kind not found if there is none.
	DeleteUser(ctx context.Context, name rhumb.UserName) error
}

func (s *Server) users() (Users, error) {
	if s.cfg.Users == nil {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "this node keeps no users")
	}
	return s.cfg.Users, nil
}

// userList answers GET /users.
func (s *Server) userList(*http.Request) (any, error) {
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	list := api.UserList{Users: []api.User{}}
	for _, u := range users.Users() {
		list.Users = append(list.Users, userJSON(&u))
	}
	return list, nil
}

func userJSON(u *configstore.User) api.User {
	out := api.User{Name: u.Name, Admin: u.Admin, Grants: slices.Clone(u.Grants), UpdatedAt: u.UpdatedAt, UpdatedBy: u.UpdatedBy, UpdatedCaller: u.UpdatedCaller}
	if out.Grants == nil {
		out.Grants = []rhumb.Space{}
	}
	if home := u.HomeSpace(); !home.IsZero() {
		out.Home = home.String()
	}
	out.Mechanisms = slices.DeleteFunc(slices.Clone(configstore.ScramMechanisms), func(m scram.Mechanism) bool { return u.Scram.Of(m) == nil })
	return out
}

// userChange answers POST /users.
func (s *Server) userChange(r *http.Request) (any, error) {
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	var c api.UserChange
	if err := decode(r, &c); err != nil {
		return nil, err
	}
	changes(r, "user %s", c.Name)
	var before uint64
	u, err := users.PutUser(r.Context(), c.Name, func(u *configstore.User) error {
		before = u.Version
		return changeUser(u, &c)
	})
	if errors.Is(err, errNoUser) {
		err = noUser(c.Name, users.Users())
	}
	if err != nil {
		return nil, err
	}
	changesVersion(r, before, u.Version)
	return userJSON(&u), nil
}

func changeUser(u *configstore.User, c *api.UserChange) error {
	switch is := u.Version > 0; {
	case c.Create && is:
		return rhumb.Errorf(rhumb.KindExists, "user %s is there already: see it with 'rhumb user list'", c.Name)
	case !c.Create && !is:
		return errNoUser
	}
	if c.Admin != nil {
		u.Admin = *c.Admin
	}
	for _, g := range c.Grant {
		if !slices.Contains(u.Grants, g) {
			u.Grants = append(u.Grants, g)
		}
	}
	for _, g := range c.Revoke {
		if !slices.Contains(u.Grants, g) {
			return rhumb.Errorf(rhumb.KindInvalid, "user %s has no grant for %s", c.Name, g)
		}
		u.Grants = slices.DeleteFunc(u.Grants, func(have rhumb.Space) bool { return have == g })
		if u.Home == g {
			u.Home = rhumb.Space{}
		}
	}
	if c.Home != nil {
		u.Home = *c.Home
	}
	if c.SHA256 != nil || c.SHA512 != nil {
		u.Scram = configstore.Scram{SHA256: c.SHA256, SHA512: c.SHA512}
	}
	return nil
}

// errNoUser says that the user to be changed is not there.
var errNoUser = errors.New("no such user")

// noUser is the refusal of a name that no user has, with those that may have been meant.
func noUser(name rhumb.UserName, all []configstore.User) error {
	hint := nearest.Hint(string(name), all, func(u *configstore.User) string { return string(u.Name) })
	return rhumb.Errorf(rhumb.KindNotFound, "there is no user %q%s: see who there is with 'rhumb user list'", name, hint)
}

// userDelete answers DELETE /users?name=NAME with the user as it was.
func (s *Server) userDelete(r *http.Request) (any, error) {
	users, err := s.users()
	if err != nil {
		return nil, err
	}
	name := rhumb.UserName(r.URL.Query().Get("name"))
	changes(r, "user %s", name)
	all := users.Users()
	i := slices.IndexFunc(all, func(u configstore.User) bool { return u.Name == name })
	if i < 0 {
		return nil, noUser(name, all)
	}
	changesVersion(r, all[i].Version, all[i].Version+1)
	return userJSON(&all[i]), users.DeleteUser(r.Context(), name)
}

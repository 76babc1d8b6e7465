package configstore

import (
	"context"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// PutUser creates or changes a user. Namespaces that are granted anew must exist.
func (w *Writer) PutUser(ctx context.Context, name rhumb.UserName, edit func(*User) error) (User, error) {
	return apply(ctx, w, change[User]{key: UserKey(name), edit: edit, check: func(ctx context.Context, u, old *User) error {
		if err := u.validate(); err != nil || u.Deleted {
			return err
		}
		return w.checkUser(ctx, u, old)
	}})
}

func (w *Writer) checkUser(ctx context.Context, u, old *User) error {
	if old == nil {
		all, err := w.store.List(ctx, UsersPrefix)
		if err != nil {
			return err
		}
		live := slices.DeleteFunc(all, func(d Document) bool { return d.Deleted })
		if len(live) >= MaxUsers {
			return rhumb.Errorf(rhumb.KindTooLarge, "configstore: the mesh has %d users, no more are allowed", len(live))
		}
	}
	for i, g := range u.Grants {
		if g == rhumb.DefaultSpace || old != nil && slices.Contains(old.Grants, g) {
			continue // public/default exists everywhere
		}
		if _, err := getAs[Namespace](ctx, w.store, NamespaceKey(g.Tenant, g.Namespace)); rhumb.KindOf(err) == rhumb.KindNotFound {
			like, err := w.likeNamespace(ctx, g)
			if err != nil {
				return err
			}
			return invalid("grants["+strconv.Itoa(i)+"]", "namespace %s does not exist%s", g, like)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// likeNamespace gives the namespaces that may have been meant, as the end of a refusal.
func (w *Writer) likeNamespace(ctx context.Context, at rhumb.Space) (string, error) {
	all, err := listAs[Namespace](ctx, w.store, NamespacesPrefix)
	all = slices.DeleteFunc(all, func(n Namespace) bool { return n.Deleted })
	return nearest.Hint(at.String(), all, func(n *Namespace) string { return string(n.Tenant) + "/" + string(n.Name) }), err
}

// DeleteUser writes a user's tombstone, which keeps no verifier.
func (w *Writer) DeleteUser(ctx context.Context, name rhumb.UserName) error {
	_, err := w.PutUser(ctx, name, func(u *User) error {
		u.Scram = Scram{}
		return bury(&u.Meta, UserKey(name))
	})
	return err
}

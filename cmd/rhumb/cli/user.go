package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/scram"
)

func userCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "user", Short: "Manage the users of the mesh's Kafka listeners", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "Users log in to Kafka listeners that ask for it, in every region of the mesh, and work in the\n" +
			"namespaces that they are granted. A password is read from $RHUMB_PASSWORD, or from the terminal, or\n" +
			"from standard input; only what it can be checked with leaves this command."}
	a.flags(c)
	c.AddCommand(userList(a), userCreate(a), userDelete(a), userGrant(a), userRevoke(a), userPassword(a))
	return c
}

func userList(a *asking) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the users", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				users, err := conn.Users(c.Context())
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), api.UserList{Users: users}, func(w io.Writer) {
					row(w, "USER", "ADMIN", "HOME", "GRANTS", "PASSWORD", "CHANGED", "BY")
					for _, u := range users {
						row(w, u.Name, u.Admin, orDash(u.Home), orDash(list(u.Grants)), orDash(list(u.Mechanisms)), u.UpdatedAt.UTC().Format(time.RFC3339), whoText(u.UpdatedCaller.Name, u.UpdatedBy))
					}
				})
			})
		}}
}

// whoText says on whose behalf something was written, if that is known, and by whom.
func whoText(caller, by string) string {
	if caller == "" {
		return by
	}
	return caller + ", " + by
}

func list[T any](all []T) string {
	var text []string
	for _, v := range all {
		text = append(text, fmt.Sprint(v))
	}
	return strings.Join(text, ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func userCreate(a *asking) *cobra.Command {
	var grants []string
	var home string
	var admin, without bool
	c := &cobra.Command{Use: "create USER", Short: "Make a user", Args: exactly(1, "one USER"),
		RunE: func(c *cobra.Command, args []string) error {
			change := api.UserChange{Name: rhumb.UserName(args[0]), Create: true, Admin: &admin}
			var err error
			if change.Grant, err = spaces(c, grants); err != nil {
				return err
			}
			if home != "" {
				s, err := spaceNamed(c, home)
				if err != nil {
					return err
				}
				change.Home = &s
			}
			if !without {
				if err := setPassword(c, &change); err != nil {
					return err
				}
			}
			return a.changeUser(c, change, "created user %s\n")
		}}
	c.Flags().StringSliceVar(&grants, "grant", nil, "TENANT/NAMESPACE that the user may work in; may be given several times")
	c.Flags().StringVar(&home, "home", "", "TENANT/NAMESPACE of bare topic names (default: the first that is granted)")
	offer(c, "grant", a.complete(0, -1, namespaceNames))
	offer(c, "home", a.complete(0, 1, namespaceNames))
	c.Flags().BoolVar(&admin, "admin", false, "reaches every namespace and may change users with Kafka's tools")
	c.Flags().BoolVar(&without, "no-password", false, "logs in with a client certificate only")
	return c
}

func spaces(c *cobra.Command, names []string) ([]rhumb.Space, error) {
	var out []rhumb.Space
	for _, n := range names {
		s, err := spaceNamed(c, n)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// changeUser makes the call and prints the user, or a line with its name.
func (a *asking) changeUser(c *cobra.Command, change api.UserChange, line string) error {
	if err := change.Name.Validate(); err != nil {
		return usage(c, err)
	}
	return a.ask(c, func(conn *client.Client) error {
		u, err := conn.ChangeUser(c.Context(), change)
		if err != nil {
			return err
		}
		return a.print(c.OutOrStdout(), u, func(w io.Writer) { fmt.Fprintf(w, line, u.Name) })
	})
}

func userDelete(a *asking) *cobra.Command {
	return &cobra.Command{Use: "delete USER", Short: "Delete a user, and close its connections in all regions", Args: exactly(1, "one USER"), ValidArgsFunction: a.completeUser(nil),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, func(conn *client.Client) error {
				was, err := conn.DeleteUser(c.Context(), rhumb.UserName(args[0]))
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), was, func(w io.Writer) { fmt.Fprintf(w, "deleted user %s\n", was.Name) })
			})
		}}
}

func userGrant(a *asking) *cobra.Command {
	return &cobra.Command{Use: "grant USER TENANT/NAMESPACE…", Short: "Let a user work in namespaces", Args: between(2, -1, "a USER and namespaces"), ValidArgsFunction: a.completeUser(a.complete(1, -1, namespaceNames)),
		RunE: func(c *cobra.Command, args []string) error {
			granted, err := spaces(c, args[1:])
			if err != nil {
				return err
			}
			return a.changeUser(c, api.UserChange{Name: rhumb.UserName(args[0]), Grant: granted}, "granted to user %s\n")
		}}
}

func userRevoke(a *asking) *cobra.Command {
	return &cobra.Command{Use: "revoke USER TENANT/NAMESPACE…", Short: "Take namespaces away from a user", Args: between(2, -1, "a USER and namespaces"), ValidArgsFunction: a.completeUser(a.complete(1, -1, namespaceNames)),
		RunE: func(c *cobra.Command, args []string) error {
			taken, err := spaces(c, args[1:])
			if err != nil {
				return err
			}
			return a.changeUser(c, api.UserChange{Name: rhumb.UserName(args[0]), Revoke: taken}, "taken from user %s\n")
		}}
}

func userPassword(a *asking) *cobra.Command {
	return &cobra.Command{Use: "password USER", Short: "Give a user a new password", Args: exactly(1, "one USER"), ValidArgsFunction: a.completeUser(nil),
		RunE: func(c *cobra.Command, args []string) error {
			change := api.UserChange{Name: rhumb.UserName(args[0])}
			if err := setPassword(c, &change); err != nil {
				return err
			}
			return a.changeUser(c, change, "changed the password of user %s\n")
		}}
}

// setPassword asks for a password and puts what it can be checked with into the
// change.
func setPassword(c *cobra.Command, change *api.UserChange) error {
	password, err := readPassword(c)
	if err != nil {
		return err
	}
	for m, at := range map[scram.Mechanism]**scram.Verifier{scram.SHA256: &change.SHA256, scram.SHA512: &change.SHA512} {
		v, err := scram.New(m, password, 0)
		if err != nil {
			return err
		}
		*at = &v
	}
	return nil
}

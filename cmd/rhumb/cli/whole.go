package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A caller who administers tenants is shown what is theirs, and no more. What a command
// lists may be cut so; what it concludes may not: that something is nowhere, or holds
// everywhere, is not known then.

// whole refuses answers of a region that were cut to what the caller may see.
func whole(conn *client.Client) error {
	if within := conn.Within(); within != nil {
		return rhumb.Errorf(rhumb.KindForbidden, "%s shows this caller what is of %s only: come with a token or certificate of the role viewer, operator or admin there",
			conn.URL(), tenantsText(within))
	}
	return nil
}

// covers refuses answers of a region that may lack what is of one of these tenants.
func covers(conn *client.Client, spaces map[rhumb.Space]bool) error {
	shown := map[rhumb.Tenant]bool{}
	for _, t := range conn.Within() {
		shown[t] = true
	}
	for s := range spaces {
		if len(shown) > 0 && !shown[s.Tenant] {
			return whole(conn)
		}
	}
	return nil
}

// noteCut says, beside a list, that it was cut: an empty one means nothing of others.
func noteCut(c *cobra.Command, conn *client.Client) {
	if within := conn.Within(); within != nil {
		fmt.Fprintf(c.ErrOrStderr(), "rhumb: note: %s shows this caller what is of %s only\n", conn.URL(), tenantsText(within))
	}
}

// hidden is the refusal of a name that is not in a list which was cut; nil if it was not.
func hidden(conn *client.Client, what string) error {
	if err := whole(conn); err != nil {
		return rhumb.Errorf(rhumb.KindForbidden, "whether there is a %s cannot be told: %w", what, err)
	}
	return nil
}

func tenantsText(all []rhumb.Tenant) string {
	word := "tenants "
	if len(all) == 1 {
		word = "tenant "
	}
	var names []string
	for _, t := range all {
		names = append(names, string(t))
	}
	return word + strings.Join(names, ", ")
}

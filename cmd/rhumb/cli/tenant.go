package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func tenantCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "tenant", Short: "Manage the tenants of the mesh", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "A tenant holds namespaces, and says which regions they may name, and who administers them: the names of tokens and\n" +
			"certificates (admin_roles) whose callers manage its namespaces and topics, and nothing else. docs/security.md. To change\n" +
			"that later, write it into a topology file: 'rhumb topology export', then 'plan' and 'apply'."}
	a.flags(c)
	c.AddCommand(tenantList(a), tenantShow(a), tenantCreate(a), tenantDelete(a))
	return c
}

func tenantList(a *asking) *cobra.Command {
	return &cobra.Command{Use: "list", Short: "List the tenants", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				all, err := conn.Tenants(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				return a.print(c.OutOrStdout(), api.TenantList{Tenants: all}, func(w io.Writer) {
					row(w, "TENANT", "REGIONS", "VERSION", "CHANGED", "BY", "ADMINS")
					for _, t := range all {
						allowed := "all"
						if t.AllowedRegions != nil {
							allowed = list(t.AllowedRegions) // none: the row says -
						}
						row(w, t.Name, allowed, t.Version, t.UpdatedAt.UTC().Format(time.RFC3339), t.Who(), orDash(list(t.AdminRoles)))
					}
				})
			})
		}}
}

func tenantShow(a *asking) *cobra.Command {
	return &cobra.Command{Use: "show TENANT", Short: "Show a tenant's document", Args: exactly(1, "one TENANT"), ValidArgsFunction: a.completeTenant(),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, func(conn *client.Client) error {
				all, err := conn.Tenants(c.Context())
				if err != nil {
					return err
				}
				for _, t := range all {
					if string(t.Name) == args[0] {
						return a.printDocument(c, t)
					}
				}
				if err := hidden(conn, "tenant "+args[0]); err != nil {
					return err
				}
				hint := nearest.Hint(args[0], all, func(t *api.Tenant) string { return string(t.Name) })
				return rhumb.Errorf(rhumb.KindNotFound, "there is no tenant %q%s: see which there are with 'rhumb tenant list'", args[0], hint)
			})
		}}
}

func tenantCreate(a *asking) *cobra.Command {
	var regions, admins []string
	c := &cobra.Command{Use: "create TENANT", Short: "Make a tenant", Args: exactly(1, "one TENANT"),
		RunE: func(c *cobra.Command, args []string) error {
			name := rhumb.Tenant(args[0])
			if err := name.Validate(); err != nil {
				return usage(c, err)
			}
			doc := map[string]any{}
			if c.Flags().Changed("regions") {
				if len(regions) == 0 {
					return usage(c, errors.New("--regions \"\": name regions, or leave it out for all"))
				}
				doc["allowed_regions"] = append([]string{}, regions...)
			}
			if c.Flags().Changed("admin-roles") {
				doc["admin_roles"] = append([]string{}, admins...)
			}
			text, err := json.Marshal(doc)
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				t, err := conn.PutTenant(c.Context(), name, text, true)
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), t, func(w io.Writer) { fmt.Fprintf(w, "created tenant %s\n", name) })
			})
		}}
	c.Flags().StringSliceVar(&regions, "regions", nil, "regions that its namespaces may name (default: all, also those that come later)")
	c.Flags().StringArrayVar(&admins, "admin-roles", nil, "name of a token or certificate whose caller administers it; may be given several times (default: only admins of the mesh)")
	offer(c, "regions", a.complete(0, -1, regionNames))
	return c
}

func tenantDelete(a *asking) *cobra.Command {
	return &cobra.Command{Use: "delete TENANT", Short: "Delete a tenant that has no namespaces", Args: exactly(1, "one TENANT"), ValidArgsFunction: a.completeTenant(),
		RunE: func(c *cobra.Command, args []string) error {
			name := rhumb.Tenant(args[0])
			if err := name.Validate(); err != nil {
				return usage(c, err)
			}
			return a.ask(c, func(conn *client.Client) error {
				was, err := conn.DeleteTenant(c.Context(), name)
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), was, func(w io.Writer) { fmt.Fprintf(w, "deleted tenant %s\n", name) })
			})
		}}
}

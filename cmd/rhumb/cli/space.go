package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func namespaceCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "namespace", Short: "Say where the mesh's namespaces flow, and what they keep", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "A namespace is the unit of policy: its document has the topology, retention and what deleting a topic deletes.\n" +
			"Documents belong to the whole mesh and are in force in every region within seconds. docs/topologies.md has all\n" +
			"shapes; 'rhumb topology' plans and applies many of them from one file."}
	a.flags(c)
	c.AddCommand(namespaceList(a), namespaceShow(a), namespacePut(a, true), namespacePut(a, false), namespaceDelete(a))
	return c
}

func namespaceList(a *asking) *cobra.Command {
	return &cobra.Command{Use: "list [TENANT]", Short: "List the namespaces that have a document", Args: between(0, 1, "at most a TENANT"), ValidArgsFunction: a.completeTenant(),
		RunE: func(c *cobra.Command, args []string) error {
			return a.ask(c, func(conn *client.Client) error {
				all, err := conn.Namespaces(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				list := api.NamespaceList{Namespaces: []api.Namespace{}}
				for _, n := range all {
					if len(args) == 0 || string(n.Space.Tenant) == args[0] {
						list.Namespaces = append(list.Namespaces, n)
					}
				}
				return a.print(c.OutOrStdout(), list, func(w io.Writer) {
					row(w, "NAMESPACE", "TOPOLOGY", "VERSION", "CHANGED", "BY")
					for _, n := range list.Namespaces {
						row(w, n.Space, topologyText(n), n.Version, n.UpdatedAt.UTC().Format(time.RFC3339), n.Who())
					}
				})
			})
		}}
}

func topologyText(n api.Namespace) string {
	if len(n.Topology.Regions()) < 2 {
		return "local"
	}
	return n.Topology.Shape() + ": " + list(n.Topology.Regions())
}

func namespaceShow(a *asking) *cobra.Command {
	return &cobra.Command{Use: "show TENANT/NAMESPACE", Short: "Show a namespace's document, as 'set' takes it", Args: exactly(1, "one TENANT/NAMESPACE"), ValidArgsFunction: a.completeNamespace(),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := spaceNamed(c, args[0])
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				all, err := conn.Namespaces(c.Context())
				if err != nil {
					return err
				}
				for _, n := range all {
					if n.Space == at {
						return a.printDocument(c, n)
					}
				}
				if err := hidden(conn, "namespace "+at.String()); err != nil {
					return err
				}
				hint := nearest.Hint(at.String(), all, func(n *api.Namespace) string { return n.Space.String() })
				return rhumb.Errorf(rhumb.KindNotFound, "there is no namespace %q%s: see which there are with 'rhumb namespace list'", at, hint)
			})
		}}
}

// printDocument prints a document, as YAML for people unless another format was asked for.
func (a *asking) printDocument(c *cobra.Command, doc any) error {
	if a.format.String() != "table" {
		return a.format.print(c.OutOrStdout(), doc, nil)
	}
	return writeDocument(c.OutOrStdout(), doc)
}

// putUse are the words of the two commands that store a document.
var putUse = map[bool]struct{ verb, short, did string }{
	true:  {"create", "Make a ", "created"},
	false: {"set", "Replace the document of a ", "set"},
}

const fileUsage = "file of the document, YAML or JSON (-: standard input)"

func namespacePut(a *asking, create bool) *cobra.Command {
	var file string
	use := putUse[create]
	c := &cobra.Command{Use: use.verb + " TENANT/NAMESPACE", Short: use.short + "namespace", Args: exactly(1, "one TENANT/NAMESPACE"),
		Long: use.short + "namespace. The document is taken whole: what it leaves out is left out. If it has a version, as what\n" +
			"'show' prints has, it replaces that version only, and is refused if somebody changed the namespace since.",
		Example: "  rhumb namespace " + use.verb + " acme/shop -f shop.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			at, err := spaceNamed(c, args[0])
			if err != nil {
				return err
			}
			if file == "" && !create {
				return usage(c, fmt.Errorf("-f is required"))
			}
			return a.putDocument(c, file, "namespace", at.String(), func(conn *client.Client, text json.RawMessage) (any, error) {
				stored, err := conn.PutNamespace(c.Context(), at, text, create)
				if err == nil {
					for _, text := range sizeOnly(at, &stored) {
						fmt.Fprintf(c.ErrOrStderr(), "rhumb: warning: %s\n", text)
					}
				}
				return stored, err
			}, use.did)
		}}
	c.Flags().StringVarP(&file, "file", "f", "", fileUsage)
	if !create {
		c.ValidArgsFunction = a.completeNamespace()
	}
	return c
}

// sizeOnly gives what is easily overlooked in a namespace's document.
func sizeOnly(at rhumb.Space, stored *api.Namespace) []string {
	n := stored.Namespace
	n.Tenant, n.Name = at.Tenant, at.Namespace
	return n.SizeOnly()
}

// putDocument reads the file, stores it with put and prints what came of it. A
// refusal names the file's line. No file: an empty document.
func (a *asking) putDocument(c *cobra.Command, file, kind, name string, put func(*client.Client, json.RawMessage) (any, error), did string) error {
	doc := &documentFile{json: json.RawMessage("{}")}
	if file != "" {
		var err error
		if doc, err = readDocument(c, file, kind, name); err != nil {
			return err
		}
	}
	return a.ask(c, func(conn *client.Client) error {
		stored, err := put(conn, doc.json)
		if err != nil {
			return doc.locate(err)
		}
		return a.print(c.OutOrStdout(), stored, func(w io.Writer) { fmt.Fprintf(w, "%s %s %s\n", did, kind, name) })
	})
}

func namespaceDelete(a *asking) *cobra.Command {
	return &cobra.Command{Use: "delete TENANT/NAMESPACE", Short: "Delete a namespace's document: it flows no longer, its topics and records stay",
		Long: "Delete a namespace's document. Its topics and records stay in each region. Clients go on reading and writing them,\n" +
			"also where its roles refused producers, and what they write reaches no other region until the namespace is made\n" +
			"again. No new topics are made in it, but in public/default.", Args: exactly(1, "one TENANT/NAMESPACE"), ValidArgsFunction: a.completeNamespace(),
		RunE: func(c *cobra.Command, args []string) error {
			at, err := spaceNamed(c, args[0])
			if err != nil {
				return err
			}
			return a.ask(c, func(conn *client.Client) error {
				was, err := conn.DeleteNamespace(c.Context(), at)
				if err != nil {
					return err
				}
				return a.print(c.OutOrStdout(), was, func(w io.Writer) {
					fmt.Fprintf(w, "deleted namespace %s; its topics and records stay, clients go on writing to them, and none of that reaches another region\n", at)
				})
			})
		}}
}

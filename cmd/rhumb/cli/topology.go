package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// exitChanges is what plan ends with when there is something to do.
const exitChanges = 2

func topologyCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "topology", Short: "Say in one file where namespaces flow: plan it, apply it, draw it", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "A topology file says tenants, namespaces and what single topics have of their own. topology-examples has one of each\n" +
			"shape, docs/topologies.md explains them."}
	a.flags(c)
	c.AddCommand(topologyValidate(a), topologyPlan(a), topologyApply(a), topologyShow(a), topologyExport(a))
	return c
}

const topologyFileUsage = "topology file, YAML or JSON (-: standard input)"

// topologyFile reads the file and checks what can be checked without a mesh.
func topologyFile(c *cobra.Command, file string) (*documentFile, *configstore.TopologyFile, error) {
	if file == "" {
		return nil, nil, usage(c, fmt.Errorf("-f is required"))
	}
	doc, err := readTopology(c, file)
	if err != nil {
		return nil, nil, err
	}
	f, err := configstore.ReadTopologyFile(doc.json)
	if err != nil {
		return nil, nil, doc.locate(err)
	}
	return doc, f, nil
}

// validated is what validate says with -o json.
type validated struct {
	File       string   `json:"file"`
	Tenants    int      `json:"tenants"`
	Namespaces int      `json:"namespaces"`
	Edges      int      `json:"edges"`
	Warnings   []string `json:"warnings"`
}

func topologyValidate(a *asking) *cobra.Command {
	var file string
	c := &cobra.Command{Use: "validate -f FILE", Short: "Check a topology file without asking a mesh", Args: exactly(0, "none"),
		Long: "Check a topology file: its fields, shapes and units, and that its namespaces name no region which its own\n" +
			"allowed_regions leave out. No region is asked, so whether regions are registered, and what tenants allow of which\n" +
			"the file does not say it, is for 'rhumb topology plan'.",
		Example: "  rhumb topology validate -f topology-examples/chain.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			doc, f, err := topologyFile(c, file)
			if err != nil {
				return err
			}
			if err := f.Agrees(); err != nil {
				return doc.locate(err)
			}
			v := validated{File: file, Tenants: len(f.Tenants), Warnings: f.SizeOnly()}
			v.Namespaces, v.Edges = f.Checked()
			return a.print(c.OutOrStdout(), v, func(w io.Writer) {
				fmt.Fprintf(w, "%s is valid: tenants %d, namespaces %d, edges %d\n", file, v.Tenants, v.Namespaces, v.Edges)
				warningsText(w, v.Warnings)
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", topologyFileUsage)
	return c
}

const planLong = `Say what applying a topology file would do: documents field by field, edges, what each new edge would send of what
its source holds, and what to know before. Nothing is changed.

What the file names it says whole; what it does not name stays as it is, unless --prune is given: then it is removed.

Exit codes: 0 nothing to do, 2 there are changes, 1 the plan could not be made.`

func topologyPlan(a *asking) *cobra.Command {
	var file, save string
	var prune bool
	c := &cobra.Command{Use: "plan -f FILE", Short: "Say what applying a topology file would do", Args: cobra.ArbitraryArgs, Long: planLong,
		Example: "  rhumb topology plan -f mesh.yaml --out mesh.plan && rhumb topology apply --plan mesh.plan",
		RunE: func(c *cobra.Command, args []string) error {
			if err := exactly(0, "none")(c, args); err != nil {
				return planFailed(c, err)
			}
			doc, _, err := topologyFile(c, file)
			if err != nil {
				return planFailed(c, err)
			}
			changes := false
			err = a.ask(c, func(conn *client.Client) error {
				plan, err := conn.PlanTopology(c.Context(), doc.json, prune)
				if err != nil {
					return doc.locate(err)
				}
				changes = !plan.Empty()
				shown := planShown{Plan: plan, Prune: prune, File: doc.json}
				shown.Figures = a.planFigures(c.Context(), conn, &shown.Plan)
				if save != "" {
					if err := savePlan(save, shown); err != nil {
						return err
					}
				}
				return a.print(c.OutOrStdout(), shown, func(w io.Writer) { planText(w, shown) })
			})
			if err != nil {
				return planFailed(c, err)
			}
			if changes {
				return &toldError{exitChanges}
			}
			return nil
		}}
	c.Flags().StringVarP(&file, "file", "f", "", topologyFileUsage)
	c.Flags().BoolVar(&prune, "prune", false, "remove tenants, namespaces and topics' policy that the file does not name")
	c.Flags().StringVar(&save, "out", "", "write the plan to this file, for 'apply --plan'")
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return planFailed(c, usage(c, err)) })
	return c
}

// planFailed ends plan with the exit code of a failure, whatever failed: 2 means
// that there are changes.
func planFailed(c *cobra.Command, err error) error {
	tell(c.ErrOrStderr(), err)
	return &toldError{exitFailed}
}

// planShown is a plan as it is printed and saved: with the file that it is of.
type planShown struct {
	configstore.Plan
	Figures planFigures     `json:"figures"`
	Prune   bool            `json:"prune"`
	File    json.RawMessage `json:"file"`
}

func savePlan(file string, plan planShown) error {
	text, err := jsonText(plan, "  ")
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		return rhumb.Errorf(rhumb.KindInvalid, "saving the plan: %w", err)
	}
	return nil
}

// readPlan reads what savePlan wrote.
func readPlan(c *cobra.Command, file string) (planShown, error) {
	var p planShown
	text, err := readUpTo(c, file, maxPlanBytes)
	if err != nil {
		return p, err
	}
	if bad := json.Unmarshal(text, &p); bad != nil || p.File == nil || p.Base == nil {
		err = fmt.Errorf("is no plan that 'rhumb topology plan --out' wrote; a topology file is applied with -f")
	}
	if err != nil {
		return p, rhumb.Errorf(rhumb.KindInvalid, "%s: %w", file, err)
	}
	return p, nil
}

func topologyExport(a *asking) *cobra.Command {
	var file string
	var force bool
	c := &cobra.Command{Use: "export", Short: "Write what there is as a topology file, which, applied, changes nothing", Args: exactly(0, "none"),
		Example: "  rhumb topology export -f mesh.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.ask(c, func(conn *client.Client) error {
				text, err := conn.Topology(c.Context())
				if err != nil {
					return err
				}
				noteCut(c, conn)
				if file == "" || file == "-" {
					return a.printDocument(c, text)
				}
				mode := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
				if !force {
					mode |= os.O_EXCL // elsewhere -f is what is read: it may be the operator's only copy
				}
				out, err := os.OpenFile(file, mode, 0o666)
				if errors.Is(err, fs.ErrExist) {
					return rhumb.Errorf(rhumb.KindExists, "%s exists, and is left as it is: 'rhumb topology export' writes to the file of -f; give another name, or --force to replace it", file)
				}
				if err != nil {
					return rhumb.Errorf(rhumb.KindInvalid, "%w", err)
				}
				defer out.Close()
				if a.format.String() == "table" {
					return writeDocument(out, text)
				}
				return a.format.print(out, text, nil)
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", "write to this new file instead of standard output")
	c.Flags().BoolVar(&force, "force", false, "replace the file of -f if it exists")
	return c
}

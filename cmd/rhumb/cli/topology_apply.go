package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
)

const applyLong = `Apply a topology file. Every region has it in force within seconds, without a restart.

With --plan only what 'rhumb topology plan --out' said is done: if a document changed since, nothing is, and the error
says what changed. With -f whatever the file asks for is done.

Where --prune, or a plan made with it, takes something away that the file does not name, --yes is needed: without it
apply says what it would do and changes nothing.

Documents are stored one after the other. If one fails, those before it stay stored, the answer says which, and
applying again does the rest. No record is deleted by it, in any region.`

func topologyApply(a *asking) *cobra.Command {
	var file, plan string
	var prune, yes bool
	c := &cobra.Command{Use: "apply {-f FILE | --plan FILE}", Short: "Apply a topology file, or a plan of one", Args: exactly(0, "none"), Long: applyLong,
		Example: "  rhumb topology apply -f topology-examples/fan-in.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			doc, req, shown := &documentFile{}, api.TopologyApply{}, planShown{}
			switch {
			case plan != "" && (file != "" || prune):
				return usage(c, fmt.Errorf("--plan stands alone: the plan has its file in it"))
			case plan != "":
				var err error
				if shown, err = readPlan(c, plan); err != nil {
					return err
				}
				if shown.takesAway() && !yes {
					return a.wouldPrune(c, shown)
				}
				req.File, req.Base, prune = shown.File, shown.Base, shown.Prune
			default:
				var err error
				if doc, _, err = topologyFile(c, file); err != nil {
					return err
				}
				req.File = doc.json
			}
			return a.ask(c, func(conn *client.Client) error {
				if prune && !yes && req.Base == nil {
					plan, err := conn.PlanTopology(c.Context(), req.File, prune)
					if err != nil {
						return doc.locate(err)
					}
					if shown = (planShown{Plan: plan, Prune: prune, File: req.File}); shown.takesAway() {
						shown.Figures = a.planFigures(c.Context(), conn, &shown.Plan)
						return a.wouldPrune(c, shown)
					}
					req.Base = plan.Base // what is made meanwhile is not taken away
				}
				done, err := conn.ApplyTopology(c.Context(), req, prune)
				if err != nil {
					return doc.locate(err)
				}
				if err := a.print(c.OutOrStdout(), done, func(w io.Writer) { appliedText(w, done) }); err != nil || done.Complete {
					return err
				}
				fmt.Fprintf(c.ErrOrStderr(), "rhumb: a step failed: %s; what is done stays done, apply the file again for the rest\n", done.Error)
				return &toldError{exitFailed}
			})
		}}
	c.Flags().StringVarP(&file, "file", "f", "", topologyFileUsage)
	c.Flags().StringVar(&plan, "plan", "", "plan that 'topology plan --out' wrote")
	c.Flags().BoolVar(&prune, "prune", false, "remove tenants, namespaces and topics' policy that the file does not name; wants --yes")
	c.Flags().BoolVar(&yes, "yes", false, "take away what --prune takes away")
	return c
}

// takesAway reports whether pruning removes something.
func (p *planShown) takesAway() bool { return p.Prune && p.removed() > 0 }

// removed counts the documents that the plan takes away.
func (p *planShown) removed() (n int) {
	for _, s := range p.Steps {
		if s.Action == configstore.ActionRemove {
			n++
		}
	}
	return n
}

// wouldPrune says what a plan that takes something away would do, and fails.
func (a *asking) wouldPrune(c *cobra.Command, p planShown) error {
	if err := a.print(c.OutOrStdout(), p, func(w io.Writer) { planText(w, p) }); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "rhumb: nothing was changed: %d tenants, namespaces and policies of topics would be removed: say --yes to do it\n", p.removed())
	return &toldError{exitFailed}
}

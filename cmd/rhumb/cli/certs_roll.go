package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const rollLong = `Roll the mesh's CA over while everything runs, in three steps. After each, give the regions the files that it changed;
they read them by themselves, links and connections stay up.

  begin   makes a new CA: ca.crt then holds both. Give it to every region and client.
  issue   signs every certificate in --dir anew with the new CA. Give each region and client its own two files.
  finish  ca.crt holds the new CA only, and the old key is removed. Give it to every region and client.

A step is given again when it was stopped in the middle. issue and finish ask the mesh first whether every region has what
the step before it made, where --addr or RHUMB_ADDR names a region, and change nothing while one has not (exit code 1) or
that cannot be told (2); --unchecked leaves that out.`

// rollWork is what the steps share.
type rollWork struct {
	*certWork
	target
	unchecked bool
}

func certsRoll(all *certWork) *cobra.Command {
	w := &rollWork{certWork: all}
	c := &cobra.Command{Use: "roll", Short: "Roll the mesh's CA over, with two trusted at once", Long: rollLong, Args: cobra.NoArgs, RunE: helpOnly}
	w.target.flags(c)
	var valid time.Duration
	begin := &cobra.Command{Use: "begin", Short: "Make a new CA, and trust both", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			if valid <= 0 {
				return usage(c, fmt.Errorf("--valid %s: must be above 0", valid))
			}
			return w.step(c, func(f *certs.Folder) (certs.Rolled, error) { return f.BeginRoll(valid) },
				"give ca.crt to every region and client; then 'rhumb certs roll issue'")
		}}
	begin.Flags().DurationVar(&valid, "valid", certs.ValidCA, "how long the new CA is valid")
	issue := &cobra.Command{Use: "issue", Short: "Sign every certificate anew with the new CA", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(c, certs.StageBegun); err != nil {
				return err
			}
			return w.step(c, (*certs.Folder).IssueRoll, "give every region and client its certificate and key; then 'rhumb certs roll finish'")
		}}
	finish := &cobra.Command{Use: "finish", Short: "Trust the new CA only", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := w.check(c, certs.StageIssue); err != nil {
				return err
			}
			if at, err := certs.NewFolder(w.dir).Roll(); err == nil && at.Stage == certs.StageNone {
				return w.finished(c)
			}
			return w.step(c, (*certs.Folder).FinishRoll, "give ca.crt to every region and client; the old CA is trusted nowhere then")
		}}
	for _, step := range []*cobra.Command{issue, finish} {
		step.Flags().BoolVar(&w.unchecked, "unchecked", false, "do not ask the mesh whether every region has what the step before made")
	}
	c.AddCommand(begin, issue, finish, w.status())
	return c
}

// step runs one and tells what it left and what comes next.
func (w *rollWork) step(c *cobra.Command, do func(*certs.Folder) (certs.Rolled, error), next string) error {
	r, err := do(certs.NewFolder(w.dir))
	if err != nil {
		return err
	}
	return w.print(c.OutOrStdout(), r, func(out io.Writer) {
		for _, file := range r.Issued {
			fmt.Fprintf(out, "made %s\n", file)
		}
		fmt.Fprintf(out, "ca.crt holds %s; %.16s signs\n", counted(len(r.Trusted), "CA"), r.Signer)
		fmt.Fprintf(out, "next: %s\n", next)
	})
}

// finished tells that there is no roll-over to end. What one that was stopped at its very
// end left is removed.
func (w *rollWork) finished(c *cobra.Command) error {
	r, err := certs.NewFolder(w.dir).FinishRoll()
	if err != nil {
		return err
	}
	return w.print(c.OutOrStdout(), r, func(out io.Writer) {
		fmt.Fprintf(out, "no roll-over is under way: ca.crt holds one CA, %.16s, which signs; there is nothing to do\n", r.Signer)
	})
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// rollRow is how far a region follows, as it says in its document.
type rollRow struct {
	Region  rhumb.RegionName `json:"region"`
	Signer  string           `json:"signer"`  // SHA-256 of the CA that signed its certificate; empty: not told
	Trusted []string         `json:"trusted"` // SHA-256 of those that it trusts
	// Follows: it trusts every CA of ca.crt and no other, and once there is a new
	// signer, its certificate is of that one.
	Follows bool `json:"follows"`

	lacks bool // it has not got what the next step needs of it
}

// rollState is what status gives with -o json.
type rollState struct {
	certs.Rolled
	Regions []rollRow `json:"regions"`
}

// follow compares what the regions of the mesh say with the folder. With an error it is
// not known whether all follow; rows then are those that are known.
func (w *rollWork) follow(c *cobra.Command, at certs.Rolled) ([]rollRow, error) {
	conn, err := w.connect(c.Context())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	rows, err := followers(c, conn, at)
	if err != nil {
		return rows, err
	}
	// A region that does not follow the store knows neither who joined nor what others trust.
	st, err := conn.ConfigStatus(c.Context())
	if err == nil && st.State != configstore.StateCurrent.String() {
		err = rhumb.Errorf(rhumb.KindUnavailable, "region %s does not know what the others trust now, since it is not current with the configuration store (%s): see 'rhumb config status'", st.Region, st.State)
	}
	return rows, err
}

// followers gives a row for each region that has run. A list that lacks a document, or
// the region that gave it, is no list of all.
func followers(c *cobra.Command, conn *client.Client, at certs.Rolled) ([]rollRow, error) {
	entries, err := conn.Regions(c.Context())
	if err == nil {
		err = whole(conn)
	}
	if err != nil {
		return nil, err
	}
	self, err := conn.Region(c.Context())
	if err != nil {
		return nil, err
	}
	rows, asked := []rollRow{}, false
	for _, e := range entries {
		if e.Document == nil {
			return nil, rhumb.Errorf(rhumb.KindUnavailable, "region %s does not tell which CAs region %s trusts: ask another one", self.Name, e.Name)
		}
		doc := *e.Document
		if doc.JoinedAt.IsZero() {
			continue // it has never run: nothing of it can be cut off
		}
		r := rollRow{Region: e.Name, Signer: doc.CAFingerprint, Trusted: append([]string{}, doc.TrustedCAs...)}
		r.lacks = !containsAll(r.Trusted, at.Trusted) || at.Stage != certs.StageBegun && r.Signer != at.Signer
		r.Follows = !r.lacks && containsAll(at.Trusted, r.Trusted)
		rows, asked = append(rows, r), asked || e.Name == self.Name
	}
	if !asked {
		return nil, rhumb.Errorf(rhumb.KindUnavailable, "region %s, which was asked, is not among the regions of the mesh that have run: ask another one", self.Name)
	}
	return rows, nil
}

func containsAll(all, some []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}

// check refuses a step while a region has not got what the step before it made.
func (w *rollWork) check(c *cobra.Command, before certs.Stage) error {
	at, err := certs.NewFolder(w.dir).Roll()
	if err != nil || w.unchecked || at.Stage != before {
		return err // the step itself says what is wrong with the stage
	}
	if w.addr == "" && w.region == "" && os.Getenv("RHUMB_ADDR") == "" {
		fmt.Fprintln(c.ErrOrStderr(), "rhumb: note: no region was asked whether all have the files of the step before: name one with --addr or RHUMB_ADDR")
		return nil
	}
	rows, err := w.follow(c, at)
	if err != nil {
		return unknown(c, fmt.Errorf("whether every region has what the step before made: %w; nothing was changed, --unchecked goes on all the same", err))
	}
	var late []string
	for _, r := range rows {
		if r.lacks {
			late = append(late, string(r.Region))
		}
	}
	if len(late) > 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "%s: not all that the step before made is in use there, and its links would break: give it the files, "+
			"see 'rhumb certs roll status'; --unchecked goes on all the same", strings.Join(late, ", "))
	}
	return nil
}

// status tells how far the folder and the regions are.
func (w *rollWork) status() *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show how far the roll-over is, here and in every region", Args: exactly(0, "none"),
		Long: "Shows the CAs of --dir and what each region says that it trusts. A region follows when it trusts those of ca.crt and no " +
			"other, and shows a certificate of the one that signs, once that is the new one. Exit code 1 while a region does not follow, 2 while that cannot be told.",
		RunE: func(c *cobra.Command, _ []string) error {
			at, err := certs.NewFolder(w.dir).Roll()
			if err != nil {
				return err
			}
			rows, unsure := w.follow(c, at)
			if rows == nil {
				return unknown(c, fmt.Errorf("which regions follow: %w", unsure))
			}
			err = w.print(c.OutOrStdout(), rollState{at, rows}, func(out io.Writer) {
				fmt.Fprintf(out, "stage %s: ca.crt holds %s, %.16s signs\n\n", at.Stage, counted(len(at.Trusted), "CA"), at.Signer)
				row(out, "REGION", "FOLLOWS", "SIGNED BY", "TRUSTS")
				for _, r := range rows {
					var trusted []string
					for _, ca := range r.Trusted {
						trusted = append(trusted, fmt.Sprintf("%.16s", ca))
					}
					row(out, r.Region, r.Follows, fmt.Sprintf("%.16s", r.Signer), strings.Join(trusted, " "))
				}
			})
			switch {
			case err != nil:
				return err
			case unsure != nil:
				return unknown(c, fmt.Errorf("which regions follow: %w", unsure))
			case slices.ContainsFunc(rows, func(r rollRow) bool { return !r.Follows }):
				return &toldError{exitFailed}
			}
			return nil
		}}
}

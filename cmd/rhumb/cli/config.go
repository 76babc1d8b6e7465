package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func configCommand() *cobra.Command {
	a := &asking{}
	c := &cobra.Command{Use: "config", Short: "See how regions stand to the configuration store, and put back what it lost", Args: cobra.NoArgs, RunE: helpOnly}
	a.flags(c)
	c.AddCommand(configStatus(a), configRestore(a))
	return c
}

// configRow is a region in "config status -o json".
type configRow struct {
	Region      rhumb.RegionName  `json:"region"`
	Status      *api.ConfigStatus `json:"status,omitempty"`
	Unreachable string            `json:"unreachable,omitempty"` // why it has no status
	NotStarted  bool              `json:"not_started,omitempty"` // it is registered and has never been there
}

// errNotStarted says that a region cannot be asked since it has never been there: it is
// registered, and its first start is still to come.
var errNotStarted = errors.New("registered, not started yet: it takes all documents from the store at its first start")

const configStatusLong = `Say how each region of the mesh, or the one of --region, stands to the configuration store: whether it follows it,
since when, and which documents are not in force as the store has them. Regions with the same digest have seen
the same documents.

A region that is registered and has never started follows nothing yet and cannot be behind: it is listed as
"not started" and does not count, nor does 'rhumb config restore' wait for it.

Exit code 0: all are current. 1: the store is down, went back or is of another mesh for one of them, or documents
are not in force. 2: a region could not be asked.`

func configStatus(a *asking) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Say how regions stand to the configuration store", Long: configStatusLong, Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			rows := []configRow{}
			code := exitDone
			err := a.each(c, func(name rhumb.RegionName, conn *client.Client, err error) error {
				row := configRow{Region: name}
				if err == nil {
					var st api.ConfigStatus
					if st, err = conn.ConfigStatus(c.Context()); err == nil {
						row.Status = &st
					}
				}
				switch {
				case errors.Is(err, errNotStarted):
					row.NotStarted = true
				case err != nil:
					row.Unreachable, code = err.Error(), exitUnknown
				case code == exitDone && (row.Status.State != "current" || len(row.Status.Problems) > 0 || row.Status.KeepError != ""):
					code = exitFailed
				}
				rows = append(rows, row)
				return nil
			})
			if err == nil {
				err = a.print(c.OutOrStdout(), rows, func(w io.Writer) { configTable(w, rows) })
			}
			if err == nil && code != exitDone {
				err = &toldError{code}
			}
			return err
		}}
}

func configTable(w io.Writer, rows []configRow) {
	row(w, "REGION", "STATE", "SINCE", "LAST READ", "DOCUMENTS", "DIGEST")
	for _, r := range rows {
		switch st := r.Status; {
		case st != nil:
			row(w, r.Region, st.State, when(st.Since), when(st.LastRead), st.Documents, st.Digest)
		case r.NotStarted:
			row(w, r.Region, "not started", "", "", "-", "")
		default:
			row(w, r.Region, "cannot be asked", "", "", "?", "")
		}
	}
	for _, r := range rows {
		if r.NotStarted {
			fmt.Fprintf(w, "\n%s: %v\n", r.Region, errNotStarted)
			continue
		}
		if r.Status == nil {
			fmt.Fprintf(w, "\n%s: %s\n", r.Region, r.Unreachable)
			continue
		}
		if r.Status.Error != "" {
			fmt.Fprintf(w, "\n%s: %s\n", r.Region, r.Status.Error)
		}
		if r.Status.KeepError != "" {
			fmt.Fprintf(w, "\n%s: the last good copy cannot be saved: %s\n", r.Region, r.Status.KeepError)
		}
		for _, p := range r.Status.Problems {
			fmt.Fprintf(w, "%s: %s: %s\n", r.Region, p.Key, p.Reason)
		}
		if r.Status.State == configstore.StateOtherMesh.String() {
			fmt.Fprintln(w, otherMeshNext)
		}
		if r.Status.State == "store went back" {
			fmt.Fprintln(w, "put back what regions have seen with 'rhumb config restore', or restore a newer copy of the store")
		}
	}
}

const configRestoreLong = `Put back what regions have seen into a configuration store that went back, because it was restored from an old
copy, or emptied. Each region of the mesh that answers, the one that is asked first, writes the documents of which
the store has an older version or none. Where the store has the same version with other content, the first region's
content becomes the next version. What the store has newer stays. Until then every region goes on with its last good
copy and refuses changes.

Without --yes it says what each region would put back and changes nothing.

Exit code 0: done, or nothing to do. 1: not done. 2: a region could not be asked: if it has seen more than the
others, it will say so when it is back, and the command is given again.`

// otherMeshNext is what helps when a store holds another mesh.
const otherMeshNext = "if config_store names the wrong store, correct it; if this store was emptied and a new mesh made in it, as by 'rhumb certs init', remove its document 'mesh' (docs/operating.md) and say it again"

func configRestore(a *asking) *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "restore", Short: "Put back into the configuration store what regions have seen and it lost", Long: configRestoreLong, Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			all, told := []api.ConfigRestore{}, []string{}
			code, found := exitDone, 0
			err := a.each(c, func(name rhumb.RegionName, conn *client.Client, err error) error {
				var done api.ConfigRestore
				if errors.Is(err, errNotStarted) {
					return nil // it has seen nothing that could be put back
				}
				if err == nil {
					done, err = conn.RestoreConfig(c.Context(), !yes)
				}
				if err != nil {
					if strings.Contains(err.Error(), configstore.ErrOtherMesh.Error()) {
						err = fmt.Errorf("%w; %s", err, otherMeshNext)
					}
					fmt.Fprintf(c.ErrOrStderr(), "rhumb: %s: %v\n", name, err)
					code = max(code, exitCode(err))
					return nil
				}
				found += len(done.Restored)
				all = append(all, done)
				if len(done.Restored) == 0 {
					told = append(told, toldOnly(c.Context(), conn)...)
				}
				return nil
			})
			if err == nil {
				err = a.print(c.OutOrStdout(), all, func(w io.Writer) { restoreTable(w, all) })
			}
			switch {
			case err != nil:
				return err
			case found > 0 && !yes:
				fmt.Fprintln(c.ErrOrStderr(), "rhumb: nothing was changed: say --yes to do it")
				code = max(code, exitFailed)
			case found == 0 && len(told) > 0:
				fmt.Fprintf(c.ErrOrStderr(), "rhumb: %s\nrhumb: only a region that has seen it can put it back: say it again when it answers\n", strings.Join(told, "\nrhumb: "))
				code = max(code, exitFailed)
			case found == 0 && code == exitDone:
				fmt.Fprintln(c.ErrOrStderr(), "rhumb: the store has all that these regions have seen: nothing to do")
			}
			if code != exitDone {
				return &toldError{code}
			}
			return nil
		}}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// toldOnly says of a region that has nothing to put back what others have seen, as they
// told it, and the store lacks.
func toldOnly(ctx context.Context, conn *client.Client) []string {
	st, err := conn.ConfigStatus(ctx)
	if err != nil || st.State != configstore.StateWentBack.String() {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s", st.Region, st.Error)}
}

func restoreTable(w io.Writer, all []api.ConfigRestore) {
	row(w, "REGION", "DOCUMENT", "STORE HAD", "BY", "AT", "NOW")
	for _, r := range all {
		for _, d := range r.Restored {
			had, by, at, now := "none", "-", "-", fmt.Sprintf("version %d", d.Version)
			if d.Had > 0 {
				had, by, at = fmt.Sprintf("version %d", d.Had), whoText(d.HadCaller, d.HadBy), when(d.HadAt)
			}
			if !r.Done {
				now = "would be " + now
			}
			row(w, r.Region, d.Key, had, by, at, now)
		}
	}
}

// each runs fn for every region of the mesh, the one that is asked first; with
// --region for that one alone. A region that cannot be reached comes with the error
// instead of a client.
func (t *target) each(c *cobra.Command, fn func(rhumb.RegionName, *client.Client, error) error) error {
	ctx := c.Context()
	first, err := t.connect(ctx)
	if err != nil {
		return err
	}
	defer first.Close()
	self, err := first.Region(ctx)
	if err != nil {
		return err
	}
	if err := fn(self.Name, first, nil); err != nil || t.region != "" {
		return err
	}
	regions, err := first.Regions(ctx)
	if err != nil {
		return err
	}
	for _, r := range regions {
		if r.Name == self.Name {
			continue
		}
		if err := t.other(ctx, r, fn); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) other(ctx context.Context, r api.RegionEntry, fn func(rhumb.RegionName, *client.Client, error) error) error {
	conn, err := t.firstThatAnswers(ctx, r)
	if err != nil {
		if r.Document != nil && r.Document.JoinedAt.IsZero() {
			err = fmt.Errorf("%w (%w)", errNotStarted, err)
		}
		return fn(r.Name, nil, err)
	}
	defer conn.Close()
	return fn(r.Name, conn, nil)
}

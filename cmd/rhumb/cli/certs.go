package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// certWriter is who makes a mesh's document from here.
const certWriter = "rhumb certs"

// localHosts are the names of a region's certificate if none are given.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// certWork is what the commands about certificates have in common.
type certWork struct {
	format
	dir string
}

// certMaking is the flags of a command that makes certificates; each has its own.
type certMaking struct {
	*certWork
	store string
	valid time.Duration
	force bool
}

func certsCommand() *cobra.Command {
	w := &certWork{}
	c := &cobra.Command{Use: "certs", Short: "Make and look at a mesh's certificates", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "Works on a directory of files: ca.crt, ca.key and, for each region and client, a certificate and its key.\n" +
			"No region has to run. Private keys have mode 0600 and stay where they are made: a region needs ca.crt and\n" +
			"its own two files, never ca.key."}
	w.flags(c)
	c.PersistentFlags().StringVar(&w.dir, "dir", "certs", "directory of the certificates")
	c.AddCommand(certsInit(w), certsIssue(w), certsShow(w), certsRoll(w))
	return c
}

func (w *certMaking) makeFlags(c *cobra.Command, valid time.Duration) {
	c.Flags().StringVar(&w.store, "config-store", "", storeHelp)
	c.Flags().DurationVar(&w.valid, "valid", valid, "how long the certificate is valid")
	c.Flags().BoolVar(&w.force, "force", false, "make a new key and certificate in place of those that are there")
}

// checkValid refuses lengths of time that make no certificate.
func (w *certMaking) checkValid(c *cobra.Command) error {
	if w.valid <= 0 {
		return usage(c, fmt.Errorf("--valid %s: must be above 0", w.valid))
	}
	return nil
}

func certsInit(all *certWork) *cobra.Command {
	w := &certMaking{certWork: all}
	var mesh string
	c := &cobra.Command{Use: "init --config-store STORE", Short: "Make the mesh, if there is none yet, and its CA", Args: exactly(0, "none"),
		Long: "Makes ca.crt and ca.key. A CA belongs to one mesh, whose id stands in the configuration store: init makes the\n" +
			"mesh there if it is new. --mesh names the id instead, on a machine that has no store. What was left by an init\n" +
			"that was stopped in the middle is finished. --force makes another CA: it does not stand behind what the old one\n" +
			"signed, so issue all certificates again.",
		RunE: func(c *cobra.Command, _ []string) error {
			if (mesh == "") == (w.store == "") {
				return usage(c, errors.New("give --config-store, or --mesh"))
			}
			if err := w.checkValid(c); err != nil {
				return err
			}
			id, err := w.meshID(c, mesh)
			if err != nil {
				return err
			}
			ca, err := certs.NewFolder(w.dir).Init(id, certs.Options{Valid: w.valid, Replace: w.force})
			if err != nil {
				return w.otherCA(id, err)
			}
			return w.printMade(c, certs.RoleCA, []string{filepath.Join(w.dir, "ca.crt")}, ca.Mesh)
		}}
	w.makeFlags(c, certs.ValidCA)
	c.Flags().StringVar(&mesh, "mesh", "", "id of the mesh, instead of the store that has it")
	return c
}

// meshID gives the mesh that is meant; one that is new is made.
func (w *certMaking) meshID(c *cobra.Command, text string) (rhumb.UUID, error) {
	if text != "" {
		var id rhumb.UUID
		if err := id.UnmarshalText([]byte(text)); err != nil || id.IsZero() {
			return id, usage(c, fmt.Errorf("--mesh %q: want the id of a mesh", text))
		}
		return id, nil
	}
	store, err := openStore(w.store, false)
	if err != nil {
		return rhumb.UUID{}, err
	}
	defer store.Close()
	doc, err := configstore.NewWriter(store, certWriter).EnsureMesh(c.Context())
	return doc.UUID, storeAway(w.store, err)
}

// otherCA says of whom the CA is that is in the way.
func (w *certWork) otherCA(mesh rhumb.UUID, err error) error {
	ca, bad := certs.NewFolder(w.dir).CA()
	if rhumb.KindOf(err) == rhumb.KindExists && bad == nil && ca.Mesh != mesh {
		return rhumb.Errorf(rhumb.KindExists, "%s holds the CA of another mesh, %s; this is %s: name another --dir", w.dir, ca.Mesh, mesh)
	}
	return err
}

func certsIssue(all *certWork) *cobra.Command {
	w := &certMaking{certWork: all}
	var hosts []string
	var client bool
	access := ""
	c := &cobra.Command{Use: "issue NAME…", Short: "Make certificates of regions, or of clients of the HTTP API", Args: between(1, -1, "a NAME or several"),
		Long: "Makes region-NAME.crt and region-NAME.key (client-NAME with --client), signed by the CA in --dir. --host names\n" +
			"where browsers and Kafka clients reach the region; links between regions do not look at that. --role is what\n" +
			"a client may do in the HTTP API: without it, nothing. With --config-store, the CA must be the one of the\n" +
			"store's mesh.",
		Example: "  rhumb certs issue us eu ap\n  rhumb certs issue us --host kafka.us.example --host 192.0.2.7 --force\n" +
			"  rhumb certs issue alice --client --role operator",
		RunE: func(c *cobra.Command, args []string) error {
			if err := w.checkValid(c); err != nil {
				return err
			}
			role := certs.RoleRegion
			if err := checkAccess(client, access); err != nil {
				return usage(c, err)
			}
			if client {
				role, hosts = certs.RoleClient, nil
			}
			for _, name := range args { // all are looked at before one is made
				if err := rhumb.RegionName(name).Validate(); err != nil {
					return usage(c, fmt.Errorf("%s name %q must match [a-z][a-z0-9-]{0,31}", role, name))
				}
			}
			return w.issue(c, role, args, certs.Options{Hosts: hosts, Valid: w.valid, Replace: w.force, Access: access})
		}}
	w.makeFlags(c, certs.ValidLeaf)
	c.Flags().StringSliceVar(&hosts, "host", localHosts, "name or address by which clients reach the region; may be given several times")
	c.Flags().BoolVar(&client, "client", false, "the names are those of clients")
	c.Flags().StringVar(&access, "role", "", "what the clients may do in the HTTP API: tenant, viewer, operator or admin (default: nothing)")
	_ = c.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"tenant", "viewer", "operator", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// checkAccess refuses a role that is none, or of no client.
func checkAccess(client bool, access string) error {
	if access == "" {
		return nil
	}
	if !client {
		return errors.New("--role is for clients: give --client, too")
	}
	_, err := admin.ParseRole(access)
	return err
}

func (w *certMaking) issue(c *cobra.Command, role certs.Role, names []string, o certs.Options) error {
	folder := certs.NewFolder(w.dir)
	ca, err := folder.CA()
	if err != nil {
		return err
	}
	if err := w.checkStore(c, ca.Mesh); err != nil {
		return err
	}
	var made []string
	for _, name := range names {
		if _, err := folder.Issue(role, name, o); err != nil {
			return errors.Join(w.printMade(c, role, made, ca.Mesh), err)
		}
		cert, _ := folder.Files(role, name)
		made = append(made, cert)
	}
	return w.printMade(c, role, made, ca.Mesh)
}

// checkStore refuses the CA of another mesh than the store's.
func (w *certMaking) checkStore(c *cobra.Command, mesh rhumb.UUID) error {
	if w.store == "" {
		return nil
	}
	store, err := openStore(w.store, true)
	if err != nil {
		return err
	}
	defer store.Close()
	view, err := configstore.OpenView(c.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		return noMesh(w.store, err)
	}
	if of := view.Mesh().UUID; of != mesh {
		return rhumb.Errorf(rhumb.KindForbidden, "the CA in %s is of mesh %s, the configuration store of mesh %s: name the right --dir or --config-store", w.dir, mesh, of)
	}
	return nil
}

// printMade lists what was made.
func (w *certWork) printMade(c *cobra.Command, role certs.Role, files []string, mesh rhumb.UUID) error {
	all, err := certs.NewFolder(w.dir).List(time.Now())
	if err != nil || len(files) == 0 {
		return err
	}
	var made []certs.Listed
	for _, file := range files {
		for _, l := range all {
			if l.File == file && l.Role == role {
				made = append(made, l)
				break
			}
		}
	}
	return w.print(c.OutOrStdout(), certList{Certificates: made}, func(out io.Writer) {
		for _, l := range made {
			fmt.Fprintf(out, "made %s, mesh %s, until %s\n", l.File, mesh, l.Expires.Format(time.RFC3339))
		}
	})
}

// certList is what -o json and yaml give.
type certList struct {
	Certificates []certs.Listed `json:"certificates"`
}

func certsShow(w *certWork) *cobra.Command {
	return &cobra.Command{Use: "show [NAME|FILE…]", Short: "Show the certificates, until when they are valid, and what is wrong with them", Args: between(0, -1, "NAMEs, FILEs or none"),
		Long: "Shows every certificate in --dir, or those of regions and clients that are named, or of files: whose it is, of which\n" +
			"mesh, its end, its SHA-256 and whether its key is beside it. Exit code 1 if one of them cannot be used: it has ended,\n" +
			"another CA signed it (one of the given files, else the ca.crt beside it), its key is another one's or open to others.\n" +
			"A missing key is such a problem where all of --dir is shown. Of one that is named it is none: only whose it is needs it.",
		Example: "  rhumb certs show\n  rhumb certs show eu\n  rhumb certs show /etc/rhumb/region-us.crt /etc/rhumb/ca.crt",
		RunE: func(c *cobra.Command, args []string) error {
			files, err := w.named(args)
			if err != nil {
				return err
			}
			all := certs.ListFiles(time.Now(), files)
			if len(files) == 0 {
				all, err = certs.NewFolder(w.dir).List(time.Now())
			}
			if err != nil {
				return err
			}
			err = w.print(c.OutOrStdout(), certList{Certificates: all}, func(out io.Writer) { certTable(out, all) })
			for _, l := range all {
				if err == nil && len(l.Problems) > 0 {
					err = &toldError{exitFailed}
				}
			}
			return err
		}}
}

// named gives the files that are meant: each argument is one, or the name of a region or
// client with a certificate in the directory.
func (w *certWork) named(args []string) ([]string, error) {
	folder := certs.NewFolder(w.dir)
	var files []string
	for _, arg := range args {
		if _, err := os.Stat(arg); err == nil || rhumb.RegionName(arg).Validate() != nil {
			files = append(files, arg)
			continue
		}
		before := len(files)
		for _, role := range []certs.Role{certs.RoleRegion, certs.RoleClient} {
			file, _ := folder.Files(role, arg)
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
		if len(files) == before {
			all, _ := folder.List(time.Now())
			hint := nearest.Hint(arg, all, func(l *certs.Listed) string { return l.Name })
			return nil, rhumb.Errorf(rhumb.KindNotFound, "%s has no certificate of a region or client %q%s, and there is no file of that name: see what there is with 'rhumb certs show', make one with 'rhumb certs issue'",
				w.dir, arg, hint)
		}
	}
	return files, nil
}

func certTable(out io.Writer, all []certs.Listed) {
	row(out, "FILE", "ROLE", "NAME", "MESH", "EXPIRES", "FINGERPRINT", "KEY", "PROBLEMS")
	for _, l := range all {
		mesh, end, key := "", "", ""
		if !l.Mesh.IsZero() {
			mesh = l.Mesh.String()
		}
		if !l.Expires.IsZero() {
			end = l.Expires.Format(time.RFC3339)
		}
		if l.Key {
			key = "here"
		}
		role := string(l.Role)
		if l.Access != "" {
			role += " (" + l.Access + ")"
		}
		row(out, filepath.Base(l.File), role, l.Name, mesh, end, l.Fingerprint, key, strings.Join(l.Problems, "; "))
	}
}

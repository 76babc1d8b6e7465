package cli

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// regionWriter is who replaces regions, in the documents.
const regionWriter = "rhumb region"

// answerWait is how long an address is asked whether somebody listens.
const answerWait = 500 * time.Millisecond

// regionRow is a region in "region list -o json".
type regionRow struct {
	Name     rhumb.RegionName        `json:"name"`
	Number   rhumb.RegionNumber      `json:"number"`
	State    configstore.RegionState `json:"state"`
	DataUUID rhumb.UUID              `json:"data_uuid,omitzero"` // zero: the directory that starts next is taken
	Rebuilds uint32                  `json:"rebuilds"`
	Geo      []string                `json:"geo"`
}

func regionCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{Use: "region", Short: "Look at the regions of a mesh, and replace one that lost its data directory",
		Long: "Works on the embedded configuration store in a directory of this host, whether regions run or not.",
		Args: cobra.NoArgs, RunE: helpOnly}
	c.PersistentFlags().StringVar(&dir, "config-store", "", "directory of the embedded configuration store (required)")
	withStore := func(run storeUse) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			if dir == "" {
				return usage(c, fmt.Errorf("--config-store is required"))
			}
			store, err := embedded.Open(embedded.Config{Dir: dir, Existing: true})
			if err != nil {
				return err
			}
			defer store.Close()
			view, err := configstore.OpenView(c.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
			if err != nil {
				return err
			}
			return run(c, store, view, args)
		}
	}
	c.AddCommand(regionList(withStore), regionReplace(withStore))
	return c
}

// storeUse is what a command does with the store and its documents; storeUser makes
// a command's RunE of it.
type (
	storeUse  func(*cobra.Command, configstore.Store, *configstore.View, []string) error
	storeUser func(storeUse) func(*cobra.Command, []string) error
)

func regionList(with storeUser) *cobra.Command {
	f := &format{}
	c := &cobra.Command{Use: "list", Short: "List the regions with their numbers and data directories", Args: exactly(0, "none"),
		RunE: with(func(c *cobra.Command, _ configstore.Store, view *configstore.View, _ []string) error {
			rows := []regionRow{}
			for _, r := range view.Regions() {
				rows = append(rows, regionRow{r.Name, r.Number, r.State, r.DataUUID, r.Rebuilds, append([]string{}, r.Geo...)})
			}
			return f.print(c.OutOrStdout(), rows, func(w io.Writer) {
				row(w, "REGION", "NUMBER", "STATE", "DATA DIRECTORY", "REBUILDS", "GEO")
				for _, r := range rows {
					row(w, r.Name, r.Number, r.State, dataText(r.DataUUID), r.Rebuilds, fmt.Sprint(r.Geo))
				}
			})
		})}
	f.flags(c)
	return c
}

func dataText(id rhumb.UUID) string {
	if id.IsZero() {
		return "the next to start"
	}
	return id.String()
}

const replaceLong = `Let a region start with another data directory, because the old one is gone for good. The data directory that
starts next under this name is taken; the region's number stays. What the old directory held and no other region
has is lost.

The region must be stopped, and the old directory must never start again once another one was taken. Until then
starting the old one once more takes it back.

Without --yes it says what it would do and changes nothing.`

func regionReplace(with storeUser) *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "replace NAME", Short: "Let a region start with another data directory, because the old one is gone for good",
		Long: replaceLong, Args: exactly(1, "one NAME"),
		RunE: with(func(c *cobra.Command, store configstore.Store, view *configstore.View, args []string) error {
			name := rhumb.RegionName(args[0])
			if err := name.Validate(); err != nil {
				return usage(c, err)
			}
			r, ok := view.Region(name)
			if !ok {
				return rhumb.Errorf(rhumb.KindNotFound, "no region %s in this mesh; see what there is with 'rhumb region list'", name)
			}
			warnRunning(c, r)
			if !yes {
				return planReplace(c, r)
			}
			r, err := configstore.NewWriter(store, regionWriter).ReplaceRegion(c.Context(), name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "region %s, number %d: the data directory that starts next is taken\n", r.Name, r.Number)
			return err
		})}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	return c
}

// planReplace says what replace would do.
func planReplace(c *cobra.Command, r configstore.Region) error {
	text := fmt.Sprintf("would let region %s, number %d, start with any data directory: the next to start is taken instead of %s",
		r.Name, r.Number, r.DataUUID)
	if r.DataUUID.IsZero() {
		text = fmt.Sprintf("nothing to do: region %s, number %d, takes the data directory that starts next already", r.Name, r.Number)
	}
	if _, err := fmt.Fprintln(c.OutOrStdout(), text); err != nil || r.DataUUID.IsZero() {
		return err
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "give --yes if that one is gone for good: what it held and no other region has is lost\n")
	return err
}

// warnRunning says if somebody listens where the region does. It is no refusal: what
// answers may be a load balancer, or another process.
func warnRunning(c *cobra.Command, r configstore.Region) {
	for _, protocol := range slices.Sorted(maps.Keys(r.Addresses)) {
		for _, addr := range r.Addresses[protocol] {
			conn, err := net.DialTimeout("tcp", addr, answerWait)
			if err != nil {
				continue
			}
			conn.Close()
			fmt.Fprintf(c.ErrOrStderr(), "rhumb: warning: something answers at %s, an address of region %s: if that is the region, its data directory is not gone; stop it first\n",
				addr, r.Name)
			return
		}
	}
}

package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// regionWriter is who changes regions, in the documents.
const regionWriter = "rhumb region"

// regionRow is a region in "region list -o json".
type regionRow struct {
	Name     rhumb.RegionName        `json:"name"`
	Number   rhumb.RegionNumber      `json:"number"`
	State    configstore.RegionState `json:"state"`
	DataUUID rhumb.UUID              `json:"data_uuid,omitzero"` // zero: the directory that starts next is taken
	Rebuilds uint32                  `json:"rebuilds"`
	JoinedAt time.Time               `json:"joined_at,omitzero"` // zero: it has not started yet
	Geo      []string                `json:"geo"`
	// Hidden: the caller is not told the region's document. Only name, number and state
	// are known then.
	Hidden bool `json:"hidden,omitzero"`
}

// regionWork is what the commands about regions share: they ask a region, or use the
// configuration store itself while none runs.
type regionWork struct {
	asking
	store string // as --config-store names it, empty to ask a region
}

func regionCommand() *cobra.Command {
	w := &regionWork{}
	c := &cobra.Command{Use: "region", Short: "Register, watch, drain and remove the regions of a mesh", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "Asks the admin API of a region. list, register and replace also work on the configuration store itself,\n" +
			"with --config-store, whether regions run or not."}
	w.flags(c)
	named := []*cobra.Command{regionShow(w), regionUpdate(w), regionDrain(w), regionRemove(w), regionReplace(w)}
	for _, n := range named {
		n.ValidArgsFunction = w.completeRegions(1, nil)
	}
	c.AddCommand(append(named, regionList(w), regionRegister(w))...)
	return c
}

// storeFlag adds --config-store to a command that may work without a region.
func (w *regionWork) storeFlag(c *cobra.Command) {
	c.Flags().StringVar(&w.store, "config-store", "", storeHelp+", instead of asking a region")
}

// withStore runs fn with the store that --config-store names and its documents.
func (w *regionWork) withStore(c *cobra.Command, fn func(configstore.Store, *configstore.View) error) error {
	store, err := openStore(w.store, true)
	if err != nil {
		return err
	}
	defer store.Close()
	view, err := configstore.OpenView(c.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		return storeAway(w.store, err)
	}
	return storeAway(w.store, fn(store, view))
}

// documents gives the documents of all regions, from the store or from a region.
func (w *regionWork) documents(c *cobra.Command) (all []configstore.Region, err error) {
	if w.store != "" {
		err = w.withStore(c, func(_ configstore.Store, view *configstore.View) error {
			all = view.Regions()
			return nil
		})
		return all, err
	}
	err = w.ask(c, func(conn *client.Client) error {
		entries, err := conn.Regions(c.Context())
		for _, e := range entries {
			doc := configstore.Region{Number: e.Number, State: configstore.RegionState(e.State)}
			if e.Document != nil {
				doc = *e.Document
			}
			doc.Name = e.Name
			all = append(all, doc)
		}
		return err
	})
	return all, err
}

func regionList(w *regionWork) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the regions with their numbers, states and data directories", Args: exactly(0, "none"),
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := w.documents(c)
			if err != nil {
				return err
			}
			rows := []regionRow{}
			if slices.ContainsFunc(all, func(r configstore.Region) bool { return r.Version == 0 }) {
				fmt.Fprintln(c.ErrOrStderr(), "rhumb: note: the documents of regions are not told to this caller")
			}
			for _, r := range all {
				rows = append(rows, regionRow{r.Name, r.Number, stateOf(r.State), r.DataUUID, r.Rebuilds, r.JoinedAt, append([]string{}, r.Geo...), r.Version == 0})
			}
			return w.print(c.OutOrStdout(), rows, func(out io.Writer) {
				row(out, "REGION", "NUMBER", "STATE", "JOINED", "DATA DIRECTORY", "REBUILDS", "GEO")
				for _, r := range rows {
					if r.Hidden {
						row(out, r.Name, r.Number, r.State, "?", "?", "?", "?")
						continue
					}
					row(out, r.Name, r.Number, r.State, joinedText(r.JoinedAt), dataText(r.DataUUID), r.Rebuilds, fmt.Sprint(r.Geo))
				}
			})
		}}
	w.storeFlag(c)
	return c
}

func stateOf(s configstore.RegionState) configstore.RegionState {
	if s == "" {
		return configstore.RegionActive
	}
	return s
}

func joinedText(at time.Time) string {
	if at.IsZero() {
		return "not yet"
	}
	return at.UTC().Format(time.RFC3339)
}

func dataText(id rhumb.UUID) string {
	if id.IsZero() {
		return "the next to start"
	}
	return id.String()
}

// noSuchRegion is the refusal of a name that is not in the mesh, with those of these
// regions that may have been meant.
func noSuchRegion[R any](name rhumb.RegionName, all []R, nameOf func(*R) string) error {
	return rhumb.Errorf(rhumb.KindNotFound, "no region %s in this mesh%s; see what there is with 'rhumb region list'", name, nearest.Hint(string(name), all, nameOf))
}

// memberOf is what the API gives of a document that was read from the store.
func memberOf(r configstore.Region) api.Member { return api.Member{Name: r.Name, Region: r} }

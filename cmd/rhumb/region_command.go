package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/cmd/rhumb/cli"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/configstore/embedded"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// operator is who writes documents from the command line.
const operator = "rhumb region"

func regionCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "region",
		Short: "Look at the regions of a mesh, and replace one that lost its data directory",
		Long:  "Works on the embedded configuration store in a directory of this host, whether regions run or not.",
	}
	cmd.PersistentFlags().StringVar(&dir, "config-store", "", "directory of the embedded configuration store (required)")
	withStore := func(run func(*cobra.Command, configstore.Store, []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usage(cmd, fmt.Errorf("--config-store is required"))
			}
			store, err := embedded.Open(embedded.Config{Dir: dir})
			if err != nil {
				return err
			}
			defer store.Close()
			return run(cmd, store, args)
		}
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List the regions with their numbers and data directories", Args: cobra.NoArgs, RunE: withStore(listRegions),
	}, &cobra.Command{
		Use:   "replace NAME",
		Short: "Let a region start with another data directory, because the old one is gone for good",
		Long: "The data directory that starts next under this name is taken. Its number stays. What the old directory\n" +
			"held and no other region has is lost; if it still exists, never start it again.",
		Args: cobra.ExactArgs(1),
		RunE: withStore(replaceRegion),
	})
	return cmd
}

func listRegions(cmd *cobra.Command, store configstore.Store, _ []string) error {
	view, err := configstore.OpenView(cmd.Context(), configstore.ViewConfig{Store: store, Keeper: &configstore.MemoryKeeper{}})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REGION\tNUMBER\tSTATE\tDATA DIRECTORY\tREBUILDS\tGEO")
	for _, r := range view.Regions() {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%v\n", r.Name, r.Number, r.State, r.DataUUID, r.Rebuilds, r.Geo)
	}
	return w.Flush()
}

func replaceRegion(cmd *cobra.Command, store configstore.Store, args []string) error {
	r, err := configstore.NewWriter(store, operator).ReplaceRegion(cmd.Context(), rhumb.RegionName(args[0]))
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "region %s, number %d: the data directory that starts next is taken\n", r.Name, r.Number)
	return nil
}

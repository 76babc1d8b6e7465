package cli

import (
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// answerWait is how long an address is asked whether somebody listens.
const answerWait = 500 * time.Millisecond

const replaceLong = `Let a region start with another data directory, because the old one is gone for good. The data directory that
starts next under this name is taken; the region's number stays. What the old directory held and no other region
has is lost.

The region must be stopped, and the old directory must never start again once another one was taken. Until then
starting the old one once more takes it back.

Without --yes it says what it would do and changes nothing.`

func regionReplace(w *regionWork) *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "replace NAME", Short: "Let a region start with another data directory, because the old one is gone for good",
		Long: replaceLong, Args: exactly(1, "one NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			r, err := w.document(c, name)
			if err != nil {
				return err
			}
			warnRunning(c, r, "its data directory is not gone; stop it first")
			if !yes {
				return w.planReplace(c, r)
			}
			done, err := w.replace(c, name)
			if err != nil {
				return err
			}
			out := replaced{Name: done.Name, Number: done.Number, Was: r.DataUUID, Done: true}
			return w.print(c.OutOrStdout(), out, func(to io.Writer) {
				fmt.Fprintf(to, "region %s, number %d: the data directory that starts next is taken\n", out.Name, out.Number)
			})
		}}
	c.Flags().BoolVar(&yes, "yes", false, "do it")
	w.storeFlag(c)
	return c
}

func (w *regionWork) replace(c *cobra.Command, name rhumb.RegionName) (done api.Member, err error) {
	if w.store != "" {
		err = w.withStore(c, func(store configstore.Store, view *configstore.View) error {
			if _, err := w.askBeside(c, view, name); err != nil {
				return err
			}
			r, err := configstore.NewWriter(store, regionWriter).ReplaceRegion(c.Context(), name)
			done = memberOf(r)
			return err
		})
		return done, err
	}
	err = w.ask(c, func(conn *client.Client) error {
		done, err = conn.ReplaceRegion(c.Context(), name)
		return err
	})
	return done, err
}

// document gives the document of a region that is in the mesh.
func (w *regionWork) document(c *cobra.Command, name rhumb.RegionName) (configstore.Region, error) {
	all, err := w.documents(c)
	if err != nil {
		return configstore.Region{}, err
	}
	i := slices.IndexFunc(all, func(r configstore.Region) bool { return r.Name == name })
	if i < 0 {
		return configstore.Region{}, noSuchRegion(name, all, func(r *configstore.Region) string { return string(r.Name) })
	}
	if all[i].Version == 0 {
		return configstore.Region{}, rhumb.Errorf(rhumb.KindForbidden, "which data directory region %s has is not told to this caller: come with a token or certificate of the role admin", name)
	}
	return all[i], nil
}

// replaced is what "region replace -o json" says.
type replaced struct {
	Name   rhumb.RegionName   `json:"name"`
	Number rhumb.RegionNumber `json:"number"`
	// Was is the id of the data directory that is given up; zero: none, the one that
	// starts next is taken already.
	Was  rhumb.UUID `json:"data_uuid"`
	Done bool       `json:"done"`
}

// planReplace says what replace would do, and fails if that is something.
func (w *regionWork) planReplace(c *cobra.Command, r configstore.Region) error {
	text := fmt.Sprintf("would let region %s, number %d, start with any data directory: the next to start is taken instead of %s",
		r.Name, r.Number, r.DataUUID)
	if r.DataUUID.IsZero() {
		text = fmt.Sprintf("nothing to do: region %s, number %d, takes the data directory that starts next already", r.Name, r.Number)
	}
	err := w.print(c.OutOrStdout(), replaced{Name: r.Name, Number: r.Number, Was: r.DataUUID}, func(to io.Writer) { fmt.Fprintln(to, text) })
	if err != nil || r.DataUUID.IsZero() {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "rhumb: nothing was changed: say --yes if that directory is gone for good: what it held and no other region has is lost")
	return &toldError{exitFailed}
}

// warnRunning says if somebody listens where the region does, and then what follows if
// that is the region. It is no refusal: what answers may be a load balancer, or
// another process.
func warnRunning(c *cobra.Command, r configstore.Region, then string) {
	for _, protocol := range slices.Sorted(maps.Keys(r.Addresses)) {
		for _, addr := range r.Addresses[protocol] {
			conn, err := net.DialTimeout("tcp", addr, answerWait)
			if err != nil {
				continue
			}
			conn.Close()
			fmt.Fprintf(c.ErrOrStderr(), "rhumb: warning: something answers at %s, an address of region %s: if that is the region, %s\n",
				addr, r.Name, then)
			return
		}
	}
}

package cli

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// addresses is the flags that say where a region is.
type addresses struct {
	geo, kafka, admin []string
}

func (a *addresses) flags(c *cobra.Command) {
	c.Flags().StringSliceVar(&a.geo, "geo", nil, "host:port (UDP) at which other regions reach it; may be given several times")
	c.Flags().StringSliceVar(&a.kafka, "kafka", nil, "host:port of its Kafka listeners; may be given several times")
	c.Flags().StringSliceVar(&a.admin, "admin", nil, "host:port of its admin API; may be given several times")
}

// change gives what the flags say; those that were not given say nothing.
func (a *addresses) change(c *cobra.Command) api.MemberChange {
	m := api.MemberChange{Addresses: map[string][]string{}}
	if c.Flags().Changed("geo") {
		m.Geo = append([]string{}, a.geo...)
	}
	for protocol, list := range map[string][]string{configstore.ProtocolKafka: a.kafka, configstore.ProtocolAdmin: a.admin} {
		if c.Flags().Changed(protocol) {
			m.Addresses[protocol] = append([]string{}, list...)
		}
	}
	return m
}

const registerLong = `Register a region before it starts for the first time: it gets its number, and namespaces and topologies may name it.
The other regions connect to it within seconds of its start; none is restarted. Its addresses may be left out, since
a region writes those of its own file when it starts.

The number is one that no region ever had, above the highest that any region which can be reached has seen; it is refused
while one of them says that the configuration store went back. Of two that
register the same name at once one is refused. A name whose region was removed comes back under a new number, and starts
with an empty data directory.`

func regionRegister(w *regionWork) *cobra.Command {
	at := &addresses{}
	var number uint16
	c := &cobra.Command{Use: "register NAME", Short: "Register a region that is to start for the first time", Long: registerLong, Args: exactly(1, "one NAME"),
		Example: "  rhumb region register ap --geo geo.ap.example:7650 --kafka kafka.ap.example:9092",
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			change := at.change(c)
			change.Number = rhumb.RegionNumber(number)
			made, err := w.register(c, name, change)
			if err != nil {
				return err
			}
			return w.print(c.OutOrStdout(), made, func(out io.Writer) {
				fmt.Fprintf(out, "registered region %s, number %d\n", made.Name, made.Number)
				if n := len(made.Former); n > 0 {
					fmt.Fprintf(out, "the name was number %d before, which is retired: start with an empty data directory\n", made.Former[n-1].Number)
				}
				fmt.Fprintf(out, "next: a certificate (rhumb certs issue %[1]s), its file, rhumb server; then name it in namespaces, and watch it with 'rhumb region show %[1]s --wait 1h'\n", made.Name)
			})
		}}
	at.flags(c)
	c.Flags().Uint16Var(&number, "number", 0, "ask for this number, which must be above all that were given (default: the next)")
	w.storeFlag(c)
	return c
}

func (w *regionWork) register(c *cobra.Command, name rhumb.RegionName, change api.MemberChange) (made api.Member, err error) {
	if w.store != "" {
		err = w.withStore(c, func(store configstore.Store, view *configstore.View) error {
			seen, err := w.askBeside(c, view, name)
			if err != nil {
				return err
			}
			doc := configstore.Region{Name: name, Number: change.Number, Geo: change.Geo, Addresses: change.Addresses}
			r, err := configstore.NewWriter(store, regionWriter).AddRegion(c.Context(), doc, seen)
			made = memberOf(r)
			return err
		})
		return made, err
	}
	err = w.ask(c, func(conn *client.Client) error {
		change.Seen = w.highest(c, conn)
		made, err = conn.RegisterRegion(c.Context(), name, change)
		return err
	})
	return made, err
}

// highest asks all regions that can be reached for the highest number that they have
// seen: a store that was restored from an old copy may not know of it. It asks them at
// the same time, so that those that do not answer cost one wait.
func (w *regionWork) highest(c *cobra.Command, first *client.Client) (highest rhumb.RegionNumber) {
	all, err := first.Regions(c.Context())
	if err != nil {
		return 0 // the registration itself says so
	}
	ctx, cancel := context.WithTimeout(c.Context(), regionWait)
	defer cancel()
	infos, errs := make([]api.Region, len(all)), make([]error, len(all))
	var asked sync.WaitGroup
	for i, r := range all {
		asked.Go(func() { infos[i], errs[i] = w.info(ctx, r) })
	}
	asked.Wait()
	for i, r := range all {
		if errs[i] != nil && (r.Document == nil || !r.Document.JoinedAt.IsZero()) {
			fmt.Fprintf(c.ErrOrStderr(), "rhumb: warning: region %s cannot be asked for the highest number that it has seen: %v\n", r.Name, errs[i])
		}
		highest = max(highest, infos[i].Highest)
	}
	return highest
}

// info asks a region for all that it tells of itself.
func (t *target) info(ctx context.Context, r api.RegionEntry) (api.Region, error) {
	conn, err := t.firstThatAnswers(ctx, r)
	if err != nil {
		return api.Region{}, err
	}
	defer conn.Close()
	info, err := conn.Region(ctx)
	if err == nil {
		err = whole(conn)
	}
	return info, err
}

const updateLong = `Change the addresses of a region. All regions use them within seconds; none is restarted. What is not given stays; an
empty value (--geo "") takes a list away.

A region writes the addresses of its own file when it starts. Those that are given here are *pinned*: the region leaves
them as they are, until --own gives it the say again, which it uses when it starts the next time.`

func regionUpdate(w *regionWork) *cobra.Command {
	at := &addresses{}
	var own bool
	c := &cobra.Command{Use: "update NAME", Short: "Change the addresses of a region", Long: updateLong, Args: exactly(1, "one NAME"),
		Example: "  rhumb region update ap --geo 192.0.2.7:7650\n  rhumb region update ap --own",
		RunE: func(c *cobra.Command, args []string) error {
			name, err := regionName(c, args[0])
			if err != nil {
				return err
			}
			change := at.change(c)
			if change.Geo == nil && len(change.Addresses) == 0 && !own {
				return usage(c, fmt.Errorf("nothing to change: give --geo, --kafka, --admin or --own"))
			}
			pinned := !own
			change.Pinned = &pinned
			return w.ask(c, func(conn *client.Client) error {
				done, err := conn.UpdateRegion(c.Context(), name, change)
				if err != nil {
					return err
				}
				return w.print(c.OutOrStdout(), done, func(out io.Writer) {
					fmt.Fprintf(out, "region %s: geo %v, kafka %v, admin %v\n", done.Name, done.Geo, done.Addresses[configstore.ProtocolKafka], done.Addresses[configstore.ProtocolAdmin])
					if own {
						fmt.Fprintf(out, "these stay until region %s starts again: then it writes those of its own file\n", done.Name)
					}
				})
			})
		}}
	at.flags(c)
	c.Flags().BoolVar(&own, "own", false, "let the region write its own addresses again")
	return c
}

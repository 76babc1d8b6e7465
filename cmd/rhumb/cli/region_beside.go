package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/broker/admin/client"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// beside is what one region says of the mesh to who is about to change its store.
type beside struct {
	highest rhumb.RegionNumber // that it has seen
	back    string             // why it does not trust the store, empty if it does
	known   []api.RegionEntry  // the regions of its last good copy
	err     error
}

// askBeside asks the regions that stand in the store, and those that they know, before a
// command changes the store itself. A region refuses changes to a store that went back,
// which nobody sees from the store alone; so does the command. It gives the highest region
// number that they have seen. Regions that cannot be asked are told of, but for the one
// that the change is about.
func (w *regionWork) askBeside(c *cobra.Command, view *configstore.View, about rhumb.RegionName) (highest rhumb.RegionNumber, err error) {
	w.env()
	mesh := view.Mesh().UUID
	var ask []api.RegionEntry
	asked := map[rhumb.RegionName]bool{about: true}
	add := func(e api.RegionEntry) {
		if !asked[e.Name] {
			asked[e.Name], ask = true, append(ask, e)
		}
	}
	for _, r := range view.Regions() {
		if !r.JoinedAt.IsZero() {
			add(api.RegionEntry{Name: r.Name, Admin: bothSchemes(r.Addresses[configstore.ProtocolAdmin])})
		}
	}
	for round := 0; round < 2 && len(ask) > 0; round++ { // who stands in the store, then whom these know
		now := ask
		ask = nil
		for i, b := range w.allBeside(c.Context(), now, mesh) {
			switch {
			case b.err != nil:
				fmt.Fprintf(c.ErrOrStderr(), "rhumb: warning: region %s cannot be asked what it has seen of the mesh: %v\n", now[i].Name, b.err)
			case b.back != "":
				return 0, rhumb.Errorf(rhumb.KindForbidden, "region %s has seen more than this store has (%s): put that back with 'rhumb config restore' before you change it", now[i].Name, b.back)
			}
			highest = max(highest, b.highest)
			for _, e := range b.known {
				if e.Document == nil || !e.Document.JoinedAt.IsZero() {
					add(e)
				}
			}
		}
	}
	return highest, nil
}

// allBeside asks regions at the same time, so that those that hang cost one wait.
func (w *regionWork) allBeside(ctx context.Context, regions []api.RegionEntry, mesh rhumb.UUID) []beside {
	ctx, cancel := context.WithTimeout(ctx, regionWait)
	defer cancel()
	out := make([]beside, len(regions))
	var wg sync.WaitGroup
	for i, r := range regions {
		wg.Go(func() {
			conn, err := w.firstThatAnswers(ctx, r)
			if err != nil {
				out[i].err = err
				return
			}
			defer conn.Close()
			out[i] = besideOf(ctx, conn, mesh)
		})
	}
	wg.Wait()
	return out
}

// besideOf asks one region. One of another mesh has nothing to do with this store.
func besideOf(ctx context.Context, conn *client.Client, mesh rhumb.UUID) (b beside) {
	info, err := conn.Region(ctx)
	if err == nil && info.Mesh != mesh {
		return b
	}
	if err == nil {
		err = whole(conn)
	}
	if err != nil {
		return beside{err: err}
	}
	b.highest = info.Highest
	st, err := conn.ConfigStatus(ctx)
	if err == nil && st.State == configstore.StateWentBack.String() {
		b.back = st.Error
	}
	if err == nil {
		b.known, err = conn.Regions(ctx)
	}
	if err != nil {
		b.err = err
	}
	return b
}

// bothSchemes gives URLs of addresses of which a document does not say whether TLS is
// spoken there.
func bothSchemes(addrs []string) (urls []string) {
	for _, a := range addrs {
		urls = append(urls, "http://"+a, "https://"+a)
	}
	return urls
}

package consul

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// electionTime is how long a put goes on while Consul's servers have no leader. They
// elect one within some seconds; a read waits for it at Consul, by default for 7 s.
const electionTime = 10 * time.Second

// electionPause lies between looks what became of such a put.
const electionPause = 300 * time.Millisecond

// leaderless reports whether an agent answered that its servers could not do it: none
// of them leads, or the one that did gave up in the middle, so that nobody knows yet
// whether it was done. An agent that does not answer at all is another matter.
func leaderless(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && (status.Code == http.StatusInternalServerError || status.Code == http.StatusServiceUnavailable)
}

// getSettled reads what came of a put that no leader finished, as soon as there is one:
// none is stored, with index 0, or what is. It gives false where that stays unknown.
func (s *Store) getSettled(ctx context.Context, key string, end time.Time) (d configstore.Document, index uint64, isKnown bool) {
	tick := time.NewTicker(electionPause)
	defer tick.Stop()
	for time.Until(end) > electionPause {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return d, 0, false
		}
		d, index, err := s.get(ctx, key)
		if err == nil || errors.Is(err, configstore.ErrNotFound) {
			return d, index, true
		}
		if rhumb.KindOf(err) != rhumb.KindUnavailable {
			return d, 0, false
		}
	}
	return d, 0, false
}

package consul

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

const lostLeader = "rpc error making call: raft apply failed: leadership lost while committing log"

// election is a Consul that loses its leader while it stores a put, which takes effect
// or not, and elects one after some requests.
type election struct {
	t       *testing.T
	takes   bool // whether the put takes effect
	another bool // whether somebody else stores something in between
	rounds  int  // requests without a leader

	value string // that is stored
	index uint64 // 0: none
	puts  int
}

func (e *election) answer(_ int, r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if e.puts > 0 && e.rounds > 0 {
			e.rounds--
			return response(500, 1, "No cluster leader"), nil
		}
		if e.index == 0 {
			return response(404, 1, ""), nil
		}
		return response(200, 1, strings.ReplaceAll(pairs(e.t, "rhumb/v1/regions/us", e.value), `"ModifyIndex":7`, fmt.Sprintf(`"ModifyIndex":%d`, e.index))), nil
	}
	raw, _ := io.ReadAll(r.Body)
	first := e.puts == 0
	e.puts++
	switch {
	case first && e.another:
		e.value, e.index = strings.Replace(doc(1), "test", "another", 1), 5
	case first && e.takes || !first && r.URL.Query().Get("cas") == fmt.Sprint(e.index):
		e.value, e.index = string(raw), e.index+1
	case !first:
		return response(200, 1, "false"), nil
	}
	if first {
		return response(500, 1, lostLeader), nil
	}
	return response(200, 1, "true"), nil
}

func (e *election) put(t *testing.T) error {
	s := withFake(t, Config{Address: "consul.example:8500"}, &fake{answer: e.answer})
	d, err := configstore.ParseDocument("rhumb/v1/regions/us", []byte(doc(1)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Put(t.Context(), d)
}

// TestPutThroughAnElection: Consul's leader goes while it stores a put. Whether the put
// has taken effect or not, it is stored once in the end; what somebody else stored in
// between stays.
func TestPutThroughAnElection(t *testing.T) {
	for name, c := range map[string]struct {
		election
		puts int
		err  error
	}{
		"it took effect":        {election{takes: true}, 1, nil},
		"it did not":            {election{}, 2, nil},
		"no leader for a while": {election{rounds: 3}, 2, nil},
		"somebody was faster":   {election{another: true, rounds: 1}, 1, configstore.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				e := &c.election
				e.t = t
				err := e.put(t)
				if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
					t.Errorf("%v, want %v", err, c.err)
				}
				if e.puts != c.puts {
					t.Errorf("%d puts, want %d", e.puts, c.puts)
				}
				if c.err == nil && (!strings.Contains(e.value, `"updated_by":"test"`) || e.index != 1) {
					t.Errorf("index %d holds %s", e.index, e.value)
				}
			})
		})
	}
}

// TestPutWithoutALeader: when no leader comes, the put ends soon and says why.
func TestPutWithoutALeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		err := (&election{t: t, rounds: 1000}).put(t)
		if rhumb.KindOf(err) != rhumb.KindUnavailable || !strings.Contains(err.Error(), "leadership lost") {
			t.Errorf("%v, want what Consul said", err)
		}
		if took := time.Since(began); took > 2*electionTime {
			t.Errorf("it took %s", took)
		}
	})
}

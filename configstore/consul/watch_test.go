package consul

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
)

// watchFake runs a watch for a virtual while and gives the versions that it told of.
func watchFake(t *testing.T, f *fake, during time.Duration) []uint64 {
	t.Helper()
	s := withFake(t, Config{}, f)
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	var told []uint64
	err := s.Watch(ctx, configstore.TenantsPrefix, func(docs []configstore.Document) {
		version := uint64(0)
		if len(docs) > 0 {
			version = docs[0].Version
		}
		told = append(told, version)
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the watch ended with %v", err)
	}
	return told
}

func index(r *http.Request) string { return r.URL.Query().Get("index") }

// blocked answers when the wait is over, as Consul does while nothing changes.
func blocked(r *http.Request, resp *http.Response) (*http.Response, error) {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil {
		return nil, err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-over.C:
		return resp, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// An index that goes back, after a restore, is not waited for: the watch begins
// anew, and tells of what is there now.
func TestWatchBeginsAnewWhenTheIndexGoesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{}
		f.answer = func(n int, r *http.Request) (*http.Response, error) {
			switch n {
			case 0:
				return response(200, 100, pairs(t, configstore.TenantKey("t"), doc(5))), nil
			case 1:
				return response(200, 40, pairs(t, configstore.TenantKey("t"), doc(2))), nil
			case 2:
				return response(200, 41, pairs(t, configstore.TenantKey("t"), doc(3))), nil
			}
			return blocked(r, response(200, 41, pairs(t, configstore.TenantKey("t"), doc(3))))
		}
		if told := watchFake(t, f, time.Hour); len(told) != 3 || told[2] != 3 {
			t.Errorf("told of versions %v, want 5, 2, 3", told)
		}
		var asked []string
		for _, r := range f.seen()[:4] {
			asked = append(asked, index(r))
		}
		if asked[0] != "" || asked[1] != "100" || asked[2] != "" || asked[3] != "41" {
			t.Errorf("asked for indexes %q", asked)
		}
		if n := len(f.seen()); n > 70 { // one a minute, for an hour
			t.Errorf("%d requests in an hour in which nothing changed", n)
		}
	})
}

// A Consul that fails is asked again less and less often, not at fixed times, and
// from the beginning once it answers.
func TestWatchBacksOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{}
		start := time.Now()
		f.answer = func(n int, r *http.Request) (*http.Response, error) {
			switch {
			case n == 0:
				return response(200, 9, pairs(t)), nil
			case time.Since(start) < time.Minute:
				return nil, errors.New("connection refused")
			case index(r) == "":
				return response(200, 3, pairs(t, configstore.TenantKey("t"), doc(1))), nil
			}
			return blocked(r, response(200, 3, pairs(t, configstore.TenantKey("t"), doc(1))))
		}
		if told := watchFake(t, f, 2*time.Minute); len(told) != 2 || told[1] != 1 {
			t.Errorf("told of versions %v, want 0, 1", told)
		}
		failed := 0
		for i, r := range f.seen() {
			if i < 2 || f.at[i].Sub(start) > time.Minute {
				continue
			}
			failed++
			if index(r) != "" {
				t.Errorf("request %d, after an error, waits for index %s", i, index(r))
			}
		}
		if failed < 5 || failed > 20 {
			t.Errorf("%d requests in a minute of a Consul that is down", failed)
		}
		if last := f.at[len(f.at)-1].Sub(start); last < time.Minute {
			t.Errorf("the last request was at %v", last)
		}
	})
}

// A connection that is dead without a word ends with the query's own limit.
func TestWatchOutlivesADeadConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{}
		f.answer = func(n int, r *http.Request) (*http.Response, error) {
			if n == 1 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			if n == 0 {
				return response(200, 1, pairs(t)), nil
			}
			if index(r) != "" {
				return blocked(r, response(200, 2, pairs(t, configstore.TenantKey("t"), doc(1))))
			}
			return response(200, 2, pairs(t, configstore.TenantKey("t"), doc(1))), nil
		}
		if told := watchFake(t, f, 5*time.Minute); len(told) != 2 {
			t.Errorf("told of versions %v", told)
		}
		if gap := f.at[2].Sub(f.at[1]); gap > 2*time.Minute {
			t.Errorf("the dead connection was waited for %v", gap)
		}
	})
}

// A store that changes all the time costs a list ten times a second at most.
func TestWatchIsNotDrivenByABusyStore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := &fake{}
		f.answer = func(n int, r *http.Request) (*http.Response, error) {
			return response(200, uint64(n+1), pairs(t, configstore.TenantKey("t"), doc(n+1))), nil
		}
		watchFake(t, f, 10*time.Second)
		if n := len(f.seen()); n > 110 {
			t.Errorf("%d lists in 10 seconds", n)
		}
	})
}

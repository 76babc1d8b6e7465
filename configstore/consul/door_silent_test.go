package consul

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// stuck is the body of an answer that begins and does not go on.
type stuck struct {
	begun bool
	ended <-chan struct{}
}

func (s *stuck) Read(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		return copy(p, "["), nil
	}
	<-s.ended
	return 0, context.Canceled
}

func (s *stuck) Close() error { return nil }

// An agent that takes requests and answers nothing, or begins to and stops, is a
// store that is down: every call ends, whatever context it was given.
func TestSilentConsulIsDown(t *testing.T) {
	for name, answer := range map[string]func(int, *http.Request) (*http.Response, error){
		"no answer": func(_ int, r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"half an answer": func(_ int, r *http.Request) (*http.Response, error) {
			resp := response(200, 1, "")
			resp.Body = io.NopCloser(&stuck{ended: r.Context().Done()})
			return resp, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				s := withFake(t, Config{}, &fake{answer: answer})
				began := time.Now()
				_, getErr := s.Get(t.Context(), "rhumb/v1/regions/us")
				_, listErr := s.List(t.Context(), "rhumb/v1/")
				putErr := s.Put(t.Context(), configstore.Document{Key: "rhumb/v1/regions/us", Meta: configstore.Meta{Version: 1}, JSON: []byte(`{"version":1}`)})
				for _, err := range []error{getErr, listErr, putErr} {
					if rhumb.KindOf(err) != rhumb.KindUnavailable || !errors.Is(err, errSilent) {
						t.Errorf("%v, want %v", err, errSilent)
					}
				}
				if took := time.Since(began); took > time.Minute {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// A put that was sent and is not answered may be stored: that is not told as if
// nothing had been changed.
func TestPutThatIsNotAnsweredMayBeStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := withFake(t, Config{}, &fake{answer: func(_ int, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				return response(404, 1, ""), nil
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		}})
		err := s.Put(t.Context(), configstore.Document{Key: "rhumb/v1/regions/us", Meta: configstore.Meta{Version: 1}, JSON: []byte(`{"version":1}`)})
		if rhumb.KindOf(err) != rhumb.KindTimeout || !errors.Is(err, configstore.ErrMaybeStored) {
			t.Error(err)
		}
	})
}

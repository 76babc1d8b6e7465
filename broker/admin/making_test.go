package admin_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/admintest"
	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Records of a topic that another region has made a moment ago, whose partitions are in
// the making here, are asked for and published after a wait; if it lasts, the answer
// says so.
func TestPartitionsInTheMakingAreWaitedFor(t *testing.T) {
	const records = "/admin/v1/topics/public/default/fresh/records"
	for what, ask := range map[string]func(h http.Handler) *httptest.ResponseRecorder{
		"produce": func(h http.Handler) *httptest.ResponseRecorder {
			return do(h, "POST", records, `{"records": [{"value": "v"}]}`)
		},
		"consume": func(h http.Handler) *httptest.ResponseRecorder {
			return do(h, "GET", "/admin/v1/topics/public/default/fresh/partitions/0/records", "")
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			us := admintest.New("us", 1)
			fresh := rhumb.Topic{Tenant: rhumb.DefaultTenant, Namespace: rhumb.DefaultNamespace, Name: "fresh"}
			if _, err := us.CreateTopic(t.Context(), fresh, 1, nil); err != nil {
				t.Fatal(err)
			}
			us.SetReady(fresh, false)
			h := newServer(t, us.Config()).Handler()
			began := time.Now()
			if w := ask(h); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "is being created") || time.Since(began) > 20*time.Second {
				t.Errorf("%s, never ready: %d %s after %s", what, w.Code, w.Body, time.Since(began))
			}
			time.AfterFunc(3*time.Second, func() { us.SetReady(fresh, true) })
			if w := ask(h); w.Code != http.StatusOK {
				t.Errorf("%s, ready after 3 s: %d %s", what, w.Code, w.Body)
			}
		})
	}
}

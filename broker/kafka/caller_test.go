package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// inSpace serves clients that are in a namespace and reach no other.
func inSpace(t *testing.T, space rhumb.Space) *harness {
	h := &harness{TB: t, region: brokertest.New(), door: Listener{Namespace: space}}
	return h.serve(h.region)
}

// A listener's namespace is all that its clients see: bare names are in it,
// others are refused by name and absent by id, and groups are apart.
func TestListenerWithANamespaceReachesNoOther(t *testing.T) {
	h := inSpace(t, rhumb.Space{Tenant: "acme", Namespace: "shop"})
	own := h.topic("acme/shop/orders", 1, nil)
	other := h.topic("orders", 1, nil)
	h.topic("secret", 1, nil)
	c := h.dial()

	all := metadataRequest()
	all.Topics = nil
	resp := ask[*kmsg.MetadataResponse](c, all)
	if len(resp.Topics) != 1 || *resp.Topics[0].Topic != "orders" || resp.Topics[0].TopicID != own.ID {
		t.Fatalf("listed: %+v", resp.Topics)
	}
	for name, code := range map[string]int16{
		"orders": codeNone, "persistent://acme/shop/orders": codeNone, "acme/shop/orders": codeNone,
		"public/default/orders": codeTopicAuthorizationFailed, "persistent://public/default/secret": codeTopicAuthorizationFailed,
		"persistent://public/default/absent": codeTopicAuthorizationFailed, // not told from one that is there
	} {
		req := metadataRequest(name)
		req.AllowAutoTopicCreation = true
		if got := ask[*kmsg.MetadataResponse](c, req).Topics[0]; got.ErrorCode != code {
			t.Errorf("%s: %d, want %d", name, got.ErrorCode, code)
		}
	}
	fetch := fetchRequest("", 0)
	fetch.Version, fetch.Topics[0].TopicID = 13, other.ID
	if got := ask[*kmsg.FetchResponse](c, fetch).Topics[0].Partitions[0].ErrorCode; got != codeUnknownTopicID {
		t.Errorf("fetch by a foreign id: %d", got)
	}
	if got := ask[*kmsg.ProduceResponse](c, produceRequestOf("public/default/orders", 1, oneRecord())).Topics[0].Partitions[0].ErrorCode; got != codeTopicAuthorizationFailed {
		t.Errorf("produce to a foreign topic: %d", got)
	}
}

// A fetch session is its owner's: another caller that guesses its id neither
// reads it nor ends it.
func TestFetchSessionsAreTheirOwners(t *testing.T) {
	s := newSessions(10)
	one := &caller{name: "one", home: rhumb.DefaultSpace}
	two := &caller{name: "two", home: rhumb.DefaultSpace}
	req := fetchRequest("t", 0)
	req.SessionEpoch = sessionInitial
	sess, _, err := s.open(t.Context(), one, req)
	if err != nil {
		t.Fatal(err)
	}
	sess.done()
	next := fetchRequest("t", 0)
	next.SessionID, next.SessionEpoch = sess.id, 1
	if _, _, err := s.open(t.Context(), two, next); err != errNoSession {
		t.Fatalf("another caller's session: %v", err)
	}
	ended := fetchRequest("t", 0)
	ended.SessionID, ended.SessionEpoch = sess.id, sessionless
	other, _, err := s.open(t.Context(), two, ended)
	if err != nil {
		t.Fatal(err)
	}
	other.done()
	if again, _, err := s.open(t.Context(), one, next); err != nil || again != sess {
		t.Fatalf("the owner's session: %v", err)
	}
}

package configstore_test

import (
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TestTopicsOwnPolicyReplacesItsNamespaces: edges and bounds, in a View, until the
// topic's document says no more; and a deletion of the topic keeps them.
func TestTopicsOwnPolicyReplacesItsNamespaces(t *testing.T) {
	a := small(t)
	topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "audit"}
	put := func(text string) error {
		doc, err := configstore.ReadInput[configstore.Topic]([]byte(text))
		if err != nil {
			return err
		}
		_, err = a.PutTopic(t.Context(), topic, func(tp *configstore.Topic) error {
			tp.Topology, tp.Retention = doc.Topology, doc.Retention
			return nil
		})
		return err
	}
	v := openView(t, a.store, &configstore.MemoryKeeper{})
	edges := func() (namespace, own int) {
		a.ok(v.Refresh(t.Context()))
		for _, e := range v.Edges() {
			if e.Topic == "" {
				namespace++
			} else if e.Topic == topic.Name && e.Namespace == topic.Namespace {
				own++
			}
		}
		return namespace, own
	}
	a.ok(put(`{"topology":{"full-mesh":[]},"retention":"30d"}`))
	if ns, own := edges(); ns != 2 || own != 0 || v.Flows(topic, "us") {
		t.Errorf("%d and %d edges, the local topic flows: %v", ns, own, v.Flows(topic, "us"))
	}
	if ms, bytes := v.RetentionIn(topic, "us"); ms == nil || *ms != 30*24*3600*1000 || bytes != nil {
		t.Errorf("retention %v, %v", ms, bytes)
	}
	a.ok(put(`{"topology":{"fan-out":{"from":"us","to":["ap"]}}}`))
	if ns, own := edges(); ns != 2 || own != 1 || !v.Flows(topic, "ap") || v.Flows(topic, "eu") {
		t.Errorf("%d and %d edges", ns, own)
	}
	_, err := a.CountDeletion(t.Context(), topic)
	a.ok(err)
	if ns, own := edges(); ns != 2 || own != 1 {
		t.Errorf("after a deletion %d and %d edges", ns, own)
	}
	a.refused(put(`{"topology":{"chain":["us","moon"]}}`), rhumb.KindInvalid, "topics/acme/n/audit", "topology.chain[1]", `"moon" is not registered`)
	a.refused(put(`{"topology":{"active-standby":{"active":"us","standby":["eu"]}}}`), rhumb.KindInvalid, "topology.active-standby", "roles are the namespace's")
	a.refused(put(`{"retention":{"ms":-2}}`), rhumb.KindInvalid, "retention.ms")
	a.refused(a.tenant("acme", "us", "eu"), rhumb.KindInvalid, "allowed_regions", `audit names region "ap"`)
	a.refused(a.DeleteRegion(t.Context(), "ap"), rhumb.KindInvalid, "acme/n/audit: names the region")
	a.ok(a.DeleteNamespace(t.Context(), "acme", "n"))
	if ns, own := edges(); ns != 0 || own != 0 {
		t.Errorf("a namespace that is gone has %d and %d edges", ns, own)
	}
	a.ok(a.mesh("acme", "n", "us", "eu"))
	a.ok(put(`{}`))
	if ns, own := edges(); ns != 2 || own != 0 || !v.Flows(topic, "eu") {
		t.Errorf("%d and %d edges", ns, own)
	}
}

// TestG76LocalTopicStaysLocal: a topic that is kept local by an empty list crosses
// no edge, and one that says nothing is as its namespace.
func TestG76LocalTopicStaysLocal(t *testing.T) {
	for text, want := range map[string]int{`{}`: 2, `{"topology":{"full-mesh":[]}}`: 0, `{"topology":{"edges":[]}}`: 0, `{"topology":{"ring":["us","ap"]}}`: 2} {
		a := small(t)
		topic := rhumb.Topic{Tenant: "acme", Namespace: "n", Name: "x"}
		doc, err := configstore.ReadInput[configstore.Topic]([]byte(text))
		a.ok(err)
		_, err = a.PutTopic(t.Context(), topic, func(tp *configstore.Topic) error { tp.Topology = doc.Topology; return nil })
		a.ok(err)
		v := openView(t, a.store, &configstore.MemoryKeeper{})
		got := 0
		for _, r := range []rhumb.RegionName{"us", "eu", "ap"} {
			if v.Flows(topic, r) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: the topic flows in %d regions, want %d", text, got, want)
		}
	}
}

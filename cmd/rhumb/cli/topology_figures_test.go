package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// A region that a plan makes a standby, and that has taken producers, is warned of; one
// that was a standby before is not.
func TestOnlyNewStandbysAreWarnedOf(t *testing.T) {
	topic := rhumb.Topic{Tenant: "acme", Namespace: "shop", Name: "orders"}
	published := &regionFigures{topics: map[rhumb.Topic]api.TopicDetail{
		topic: {Logs: []api.Partition{{Origins: []api.Origin{{Own: true, LastRecord: 7}}}}}}}
	regions := map[rhumb.RegionName]*regionFigures{"us": published, "eu": published}
	for _, c := range []struct{ before, after, want string }{
		{`["us","eu"]`, `["us"]`, ""},
		{`["us"]`, `["us","eu"]`, "eu"},
		{`["us","ap"]`, `["eu","ap"]`, "eu"},
		{``, `["us"]`, "us"},
	} {
		p := configstore.Plan{Steps: []configstore.PlanStep{{Kind: "namespace", Name: "acme/shop", Changes: []configstore.FieldChange{
			{Field: "topology.active-standby.standby", Before: json.RawMessage(c.before), After: json.RawMessage(c.after)}}}}}
		got := strings.Join(standbyWarnings(&p, regions), "\n")
		if c.want == "" && got != "" || !strings.HasPrefix(got, strings.TrimSuffix("region "+c.want, "region ")) || strings.Count(got, "becomes") > 1 {
			t.Errorf("%s becomes %s: %q, want one of %q", c.before, c.after, got, c.want)
		}
	}
}

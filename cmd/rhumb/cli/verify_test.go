package cli

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/rhumbmq/rhumb/cmd/rhumb/cli/verify"
)

// The last line says what is late, and what is not compared since no edge carries it:
// that is no equality.
func TestVerifyTellsWhatIsNotCompared(t *testing.T) {
	equal := verify.Origin{State: verify.Equal, Records: 7}
	late := verify.Origin{State: verify.Equal, Late: map[string]int64{"eu": 3}}
	uncarried := verify.Origin{State: verify.Equal, Uncarried: map[string]int64{"eu": 4}}
	apart := verify.Origin{State: verify.Skipped, NoEdgeTo: "us"}
	overtaken := verify.Origin{Topic: "t", Name: "us", State: verify.Unknown, Overtaken: true}
	alone := verify.Origin{Name: "ap", State: verify.Incomplete, Alone: map[string]int64{"eu": 5, "us": 6}}
	for _, c := range []struct {
		origins []verify.Origin
		state   verify.State
		want    string
	}{
		{[]verify.Origin{equal}, verify.Equal, "us and eu: equal ("},
		{[]verify.Origin{equal, late}, verify.Equal, "equal as far as both have it; 3 records are still on their way ("},
		{[]verify.Origin{late, uncarried}, verify.Equal, "; 3 records are still on their way; 4 records are not compared: no edge carries them ("},
		{[]verify.Origin{equal, apart}, verify.Equal, "us and eu: equal; 1 origin lives are not compared: no edge carries them"},
		{[]verify.Origin{apart, apart}, verify.Equal, "us and eu: nothing is compared; 2 origin lives are not compared"},
		{[]verify.Origin{equal, alone}, verify.Incomplete, "equal, but for 5 records of earlier lives that eu has and no link brings to us, and for 6 records of earlier lives that us has and no link brings to eu ("},
		{[]verify.Origin{late, apart}, verify.Differs, "us and eu: different ("},
		{[]verify.Origin{equal, overtaken}, verify.Unknown, "cannot tell: retention overtook the comparison of t partition 0 of us:00000000: run it again ("},
		{[]verify.Origin{overtaken, {State: verify.Unknown}}, verify.Unknown, "cannot tell: not all could be compared ("},
	} {
		var b bytes.Buffer
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		reportTable(w, verify.Report{A: "us", B: "eu", State: c.state, Topics: 1, Origins: c.origins})
		w.Flush()
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("no %q in\n%s", c.want, &b)
		}
	}
}

package configstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// refusedFields gives the fields that an error refuses.
func refusedFields(err error) (out []string) {
	for _, f := range configstore.FieldsOf(err) {
		out = append(out, f.Field)
	}
	slices.Sort(out)
	return out
}

// TestFilesAreRefusedAsAWhole: all that is wrong with a file is told at once, with the
// names that may have been meant, and nothing that only follows from it.
func TestFilesAreRefusedAsAWhole(t *testing.T) {
	_, err := configstore.ReadTopologyFile([]byte(`{"tenants":{"acme":{"allowd_regions":[],"allowed_regions":["us","us","US"],"version":3,"namespaces":{
		"a":{"topology":{"full_mesh":["us"],"start":"now"},"retension":"7d","backlog":{"hold":"soon","at_limit":"no"},"dedup":"mesh"},
		"b":{"topology":{"fan-in":{"from":["us","U"],"to":""},"rate":"1B"},"retention":{"ms":"x","bytes":"y"},"regions":{"eu":{"retension":"1d"}}},
		"c":{"topology":{"edges":[{"from":"us","to":"eu","foward":true},null,{"form":"eu","to":"us"}]},"limits":{"partitions":"many"},"topics":{
			"t":{"topology":{"active-standby":{"active":"us","standby":["eu"]}}},"u":{},"v":{"partitions":3}}},
		"d":null,"e f":{}}}},"tenant":{}}`))
	in := "tenants.acme.namespaces."
	want := []string{
		"tenant", "tenants.acme.allowd_regions", "tenants.acme.allowed_regions[1]", "tenants.acme.allowed_regions[2]", "tenants.acme.version",
		in + "a.backlog.at_limit", in + "a.backlog.hold", in + "a.dedup", in + "a.retension", in + "a.topology.full_mesh", in + "a.topology.start",
		in + "b.regions.eu.retension", in + "b.retention.bytes", in + "b.retention.ms", in + "b.topology.fan-in.from[1]", in + "b.topology.fan-in.to", in + "b.topology.rate",
		in + "c.limits.partitions", in + "c.topics.t.topology.active-standby", in + "c.topics.u", in + "c.topics.v.partitions",
		in + "c.topology.edges[0].foward", in + "c.topology.edges[1]", in + "c.topology.edges[2].form", in + "c.topology.edges[2].from",
		in + "d", in + "e f",
	}
	slices.Sort(want)
	if got := refusedFields(err); !slices.Equal(got, want) {
		t.Errorf("refused\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	meant := map[string]string{"allowd_regions": "allowed_regions", "full_mesh": "full-mesh", "a.retension": "retention", "eu.retension": "retention", "foward": "forward", "form": "from"}
	for _, f := range configstore.FieldsOf(err) {
		for field, name := range meant {
			if strings.HasSuffix(f.Field, field) && !strings.Contains(f.Reason, "nearest: "+name) {
				t.Errorf("%s: %s, want %s", f.Field, f.Reason, name)
			}
		}
	}
	if rhumb.KindOf(err) != rhumb.KindInvalid || !strings.Contains(err.Error(), "; and 7 more") {
		t.Errorf("%v", err)
	}
}

// TestPlansAreRefusedAsAWhole: so is what the mesh does not allow.
func TestPlansAreRefusedAsAWhole(t *testing.T) {
	a := newAdmin(t)
	a.register("us", "eu", "ap", "oceania")
	a.ok(a.tenant("acme", "us", "eu", "ap"))
	a.ok(a.mesh("acme", "n", "us", "eu"))
	_, err := a.PlanTopology(t.Context(), a.file(`{"tenants":{"acme":{"allowed_regions":["us","oceana"],"namespaces":{
		"logs":{"topology":{"chain":["us","ocaenia","eu"]},"regions":{"uss":{"retention":"1d"}},"topics":{"t":{"topology":{"full-mesh":["nowhere","us"]}}}}}},
		"free":{"namespaces":{"x":{"topology":{"ring":["us","ue"]}}}}}}`), false)
	in := "tenants.acme.namespaces.logs."
	want := []string{"tenants.acme.allowed_regions", "tenants.acme.allowed_regions[1]", in + "regions.uss", in + "topics.t.topology.full-mesh[0]",
		in + "topology.chain[1]", in + "topology.chain[2]", "tenants.free.namespaces.x.topology.ring[1]"}
	if got := refusedFields(err); !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	for _, word := range []string{`"oceana" is not registered (nearest: oceania)`, `"ocaenia" is not registered (nearest: oceania)`, `"uss" is not registered (nearest: us)`,
		`"ue" is not registered (nearest: `, `does not allow region "eu"`, `"nowhere" is not registered;`, `namespace acme/n names region "eu"`} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v\ndoes not say %s", err, word)
		}
	}
	_, err = a.PutNamespace(t.Context(), "acme", "m", func(n *configstore.Namespace) error {
		n.Topology = &configstore.Topology{FullMesh: []rhumb.RegionName{"us", "uz", "ez"}}
		return nil
	})
	if got := refusedFields(err); !slices.Equal(got, []string{"topology.full-mesh[1]", "topology.full-mesh[2]"}) {
		t.Errorf("%v", err)
	}
	_, err = a.Within("acme").PlanTopology(t.Context(), a.file(`{"tenants":{"acme":{"admin_roles":["x"]},"free":{},"other":{}}}`), false)
	if got := refusedFields(err); len(got) != 3 || rhumb.KindOf(err) != rhumb.KindForbidden {
		t.Errorf("%v", err)
	}
}

// TestRefusalsAreBounded: a file of nothing but mistakes costs bounded memory, and as
// many lines as a person reads.
func TestRefusalsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `"x%d":1,`, i)
	}
	_, err := configstore.ReadTopologyFile([]byte(`{"tenants":{"acme":{` + strings.TrimSuffix(b.String(), ",") + `}}}`))
	if n := len(configstore.FieldsOf(err)); n != configstore.MaxFieldErrors {
		t.Errorf("%d refusals", n)
	}
	if n := strings.Count(err.Error(), "no such field"); n != configstore.MaxFieldErrorsTold {
		t.Errorf("%d are told", n)
	}
	var one *configstore.FieldError
	if !errors.As(err, &one) {
		t.Errorf("%v has no field", err)
	}
}

// TestSizeAloneIsWarnedOf: where retention says a size and no time, the time of the
// regions' files holds; who writes a topology file is told.
func TestSizeAloneIsWarnedOf(t *testing.T) {
	a := small(t)
	for _, c := range []struct {
		fields string
		warned int
	}{
		{`"retention":{"bytes":"10GB"},"backlog":{"at_limit":"hold"}`, 1},
		{`"retention":{"bytes":"10GB","ms":-1},"regions":{"eu":{"retention":{"bytes":5}}}`, 0},
		{`"retention":{"bytes":-1}`, 0},
		{`"retention":"7d","topics":{"t":{"retention":{"bytes":5}}}`, 0},
		{`"regions":{"eu":{"retention":{"bytes":5}}},"topics":{"t":{"retention":{"bytes":5}}}`, 2},
		{`"retention":{"bytes":5},"regions":{"eu":{"retention":{"bytes":6}}}`, 1},
		{`"topics":{"t":{"retention":{"bytes":5,"ms":-1}}}`, 0},
	} {
		f := a.file(`{"tenants":{"acme":{"namespaces":{"logs":{"topology":{"full-mesh":["us","eu"]},` + c.fields + `}}}}}`)
		p, err := a.PlanTopology(t.Context(), f, false)
		a.ok(err)
		for what, all := range map[string][]string{"plan": p.Warnings, "validate": f.SizeOnly()} {
			if len(all) != c.warned || c.warned > 0 && !strings.Contains(all[0], "{ms: -1, bytes: ") {
				t.Errorf("%s, %s: %q, want %d", what, c.fields, all, c.warned)
			}
		}
	}
}

// TestSlipsInNewNamesAreWarnedOf: a name that is nearly one that is there makes another
// tenant or namespace, unless the file has both; numbers tell things apart.
func TestSlipsInNewNamesAreWarnedOf(t *testing.T) {
	a := small(t)
	a.ok(a.mesh("acme", "orders", "us", "eu"))
	a.ok(a.mesh("acme", "app1", "us", "eu"))
	for file, want := range map[string]string{
		`{"acmee":{}}`:                                  "tenant acmee is made anew, and there is acme,",
		`{"acmee":{},"acme":{}}`:                        "",
		`{"acme":{"namespaces":{"oders":{}}}}`:          "namespace oders is made anew, and there is orders,",
		`{"acme":{"namespaces":{"app2":{}}}}`:           "",
		`{"acme":{"namespaces":{"orders-archive":{}}}}`: "",
		`{"other":{}}`:                                  "",
	} {
		p, err := a.PlanTopology(t.Context(), a.file(`{"tenants":`+file+`}`), false)
		a.ok(err)
		got := strings.Join(p.Warnings, "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}

// TestUnitsAreReadAsTheyAreWritten: what is shown with units means the same in a file.
func TestUnitsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		unit := rapid.SampledFrom([]int64{1, 1000, 1024, 60_000, 1e6, 1 << 20, 3_600_000, 86_400_000, 1e9, 1 << 30}).Draw(rt, "unit")
		n := rapid.Int64Range(0, 30_000).Draw(rt, "n") * unit
		if back, err := configstore.ParseBytes(configstore.FormatBytes(n)); err != nil || back != n {
			rt.Fatalf("%d bytes: %s, %d, %v", n, configstore.FormatBytes(n), back, err)
		}
		ms := n % (36500 * 86_400_000)
		if d, err := configstore.ParseDuration(configstore.FormatDuration(ms)); err != nil || d.Milliseconds() != ms {
			rt.Fatalf("%d ms: %s, %v, %v", ms, configstore.FormatDuration(ms), d, err)
		}
	})
	for n, want := range map[int64]string{10e9: "10GB", 10 << 30: "10GiB", 1500: "1500", 0: "0", 1024000: "1000KiB", 5: "5"} {
		if got := configstore.FormatBytes(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	for ms, want := range map[int64]string{2_592_000_000: "30d", 43_200_000: "12h", 5_400_000: "90m", 1500: "1500ms"} {
		if got := configstore.FormatDuration(ms); got != want {
			t.Errorf("%d: %s, want %s", ms, got, want)
		}
	}
}

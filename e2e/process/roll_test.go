package process

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/porttest"
)

// linkUps counts how often regions told that a link came up.
func (m *Mesh) linkUps() (n int) {
	for _, r := range m.Regions {
		n += strings.Count(r.running.Output(), "link is up")
	}
	return n
}

// roll takes a step of the roll-over and waits until every region follows.
func (m *Mesh) roll(step string) {
	m.t.Helper()
	if res := m.Run("certs", "--dir", m.Dir, "roll", step); res.Code != 0 {
		m.t.Fatalf("roll %s: %+v", step, res)
	}
	Until(m.t, "every region follows "+step, func() bool { return m.Run("certs", "--dir", m.Dir, "roll", "status").Code == 0 })
	m.note("rolled: %s", step)
}

// The mesh's CA is rolled over under traffic. No link goes down for it, and at each
// stage a region that is killed comes back to the others.
func TestCARollsOverUnderTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("a roll-over with a kill at each stage takes its time")
	}
	m := Start(t, "us", "eu", "ap")
	m.create("us", "orders", 2)
	tr := m.Produce("orders", 2, 1)
	const some = 100
	tr.Progress(some, "us", "eu", "ap")
	m.Verify("orders") // each link has come up, and carried something
	up := m.linkUps()
	for _, step := range []string{"begin", "issue", "finish"} {
		m.roll(step)
		tr.Progress(some, "us", "eu", "ap")
	}
	if now := m.linkUps(); now != up {
		t.Errorf("links came up %d times before and %d times after the roll-over", up, now)
	}
	for _, step := range []string{"begin", "issue", "finish"} { // once more, with kills
		m.roll(step)
		m.Kill("eu")
		m.Restart("eu")
		tr.Progress(some, "us", "eu", "ap")
		m.tells(0, []string{"caught_up"}, "region", "show", "eu", "--wait", Limit.String(), "-o", "json")
	}
	tr.Finish()
	m.Verify("orders")
	tr.Check(m)
	if res := m.Run("certs", "--dir", m.Dir, "show"); res.Code != 0 || strings.Count(res.Stdout, " ca ") != 1 {
		t.Errorf("after it: %s%s", res.Stdout, res.Stderr)
	}
	m.Stop()
}

// TestCARollOverAsTheHandbookSays types the section of docs/security.md into a shell,
// beside the three regions of docs/operating.md.
func TestCARollOverAsTheHandbookSays(t *testing.T) {
	if testing.Short() {
		t.Skip("three processes and two dozen commands take their time")
	}
	mesh, _, found := strings.Cut(section(t, "Three regions from nothing"), "kill $(cat pids)")
	roll := sectionOf(t, "security.md", "Rolling the CA over")
	if !found || strings.Count(roll, "rhumb certs roll ") < 4 {
		t.Fatalf("the sections have changed:\n%s", roll)
	}
	offset := porttest.Offset(t, 3)
	out, err := shell(t, moved(mesh+roll+"rhumb verify us eu --wait 1m\nkill $(cat pids) && wait\n", offset),
		"RHUMB_ADDR=http://127.0.0.1:"+fmt.Sprint(config.PortsOf(0, 0).HTTP+offset))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"ca.crt holds 2 CAs", "region-eu.crt", "ca.crt holds 1 CA;"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

package dev

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

func TestMeshIsReadyAndStopsWithoutATrace(t *testing.T) {
	opts := options(t)
	begin := time.Now()
	m := start(t, opts)
	t.Logf("ready after %s; the goal is 2s", time.Since(begin).Round(time.Millisecond))
	if got := m.screen.String(); strings.Count(got, "region ") != 3 {
		t.Errorf("wants a line per region:\n%s", got)
	}
	if len(leftovers(t)) != 1 {
		t.Errorf("temporary folders while it runs: %q", leftovers(t))
	}
	m.produce(0, "greetings", "hello")
	for i := range 3 {
		m.consume(i, "greetings", "hello")
	}
	if err := m.end(); err != nil {
		t.Errorf("clean stop: %v", err)
	}
	isGone(t, m)
}

// isGone checks that nothing is left of a mesh.
func isGone(t *testing.T, m *running) {
	t.Helper()
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %q", left)
	}
	if _, err := os.Lstat(m.opts.Control); !os.IsNotExist(err) {
		t.Errorf("control socket is left: %v", err)
	}
	var regions []*region
	for i, name := range m.opts.Regions {
		regions = append(regions, &region{name: name, at: addressesOf(i, m.opts.PortOffset)})
	}
	if err := checkFree(regions); err != nil {
		t.Errorf("ports are left in use: %v", err)
	}
}

func TestStopBeforeReadyIsClean(t *testing.T) {
	m := launch(t, options(t))
	timeout := time.After(limit)
	for len(leftovers(t)) == 0 { // until it has begun
		select {
		case <-timeout:
			t.Fatal("no data folder")
		case <-m.ended:
			t.Fatalf("ended: %v", m.err)
		default:
		}
	}
	if err := m.end(); err != nil {
		t.Errorf("stop while starting: %v", err)
	}
	isGone(t, m)
}

func TestBusyPortsAreNamedAndNothingStarts(t *testing.T) {
	opts := options(t)
	kafka, err := net.Listen("tcp", addressesOf(1, opts.PortOffset).kafka)
	if err != nil {
		t.Fatal(err)
	}
	defer kafka.Close()
	geo, err := net.ListenPacket("udp", addressesOf(2, opts.PortOffset).geo)
	if err != nil {
		t.Fatal(err)
	}
	defer geo.Close()
	m := launch(t, opts)
	<-m.ended
	if m.err == nil {
		t.Fatal("no error")
	}
	text := m.err.Error()
	for _, want := range []string{"region eu: kafka address " + kafka.Addr().String(), "region ap: geo address " + geo.LocalAddr().String(), "--port-offset"} {
		if !strings.Contains(text, want) {
			t.Errorf("error lacks %q: %s", want, text)
		}
	}
	if strings.Contains(text, "region us") {
		t.Errorf("us is named, whose ports are free: %s", text)
	}
	kafka.Close()
	geo.Close()
	isGone(t, m)
}

func TestDataIsKeptAndUsedAgain(t *testing.T) {
	opts := options(t)
	opts.Data = filepath.Join(t.TempDir(), "mesh")
	first := start(t, opts)
	if file, err := os.ReadFile(filepath.Join(opts.Data, regionsName, "us", "region.yaml")); !strings.Contains(string(file), "\nlog_writes: cached\n") {
		t.Errorf("regions of one machine do not write through the page cache: %v", err)
	}
	first.produce(0, "kept", "one")
	for i := range 3 {
		first.consume(i, "kept", "one")
	}
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	second := start(t, opts)
	second.produce(0, "kept", "two")
	for i := range 3 {
		second.consume(i, "kept", "one", "two")
	}
	if err := second.end(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(opts.Data); err != nil {
		t.Errorf("--data is not kept: %v", err)
	}
}

// A region that joins later finds what was there before, and the numbers of the
// others stay.
func TestRegionIsAddedToKeptData(t *testing.T) {
	opts := options(t)
	opts.Data = t.TempDir()
	opts.Regions = []rhumb.RegionName{"us", "eu"}
	first := start(t, opts)
	first.produce(0, "kept", "one")
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	opts.Regions = []rhumb.RegionName{"us", "eu", "ap"}
	second := start(t, opts)
	for i := range 3 {
		second.consume(i, "kept", "one")
	}
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no regions":       func(o *Options) { o.Regions = nil },
		"eleven regions":   func(o *Options) { o.Regions = strings11() },
		"named twice":      func(o *Options) { o.Regions = []rhumb.RegionName{"us", "us"} },
		"not a name":       func(o *Options) { o.Regions = []rhumb.RegionName{"US!"} },
		"offset too large": func(o *Options) { o.PortOffset = MaxPortOffset + 1 },
		"offset negative":  func(o *Options) { o.PortOffset = -1 },
	} {
		opts := options(t)
		change(&opts)
		m := launch(t, opts)
		<-m.ended
		if rhumb.KindOf(m.err) != rhumb.KindInvalid {
			t.Errorf("%s: %v, want an error of kind invalid", name, m.err)
		}
		if left := leftovers(t); len(left) > 0 {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

func strings11() (out []rhumb.RegionName) {
	for i := range 11 {
		out = append(out, rhumb.RegionName("r"+string(rune('a'+i))))
	}
	return out
}

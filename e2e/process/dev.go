package process

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/porttest"
)

// Dev is a `rhumb dev` that runs.
type Dev struct {
	*Process
	Temp string // its folder for temporary files, where the control socket is too

	t      testing.TB
	offset int
	args   []string
}

// StartDev runs `rhumb dev` with the arguments and waits until it says that it
// is ready.
func StartDev(t testing.TB, args ...string) *Dev {
	t.Helper()
	Binary(t)                                        // not part of the time that is measured
	temp, err := os.MkdirTemp("/tmp", "rhumb-test-") // short: it holds a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(temp) })
	d := &Dev{t: t, Temp: temp, offset: porttest.Offset(t, 3)}
	d.args = append([]string{"dev", "--port-offset", strconv.Itoa(d.offset)}, args...)
	d.launch()
	return d
}

func (d *Dev) launch() {
	d.t.Helper()
	begin := time.Now()
	d.Process = Launch(d.t, d.Env(), d.args...)
	d.Await("ready; ")
	d.t.Logf("rhumb %s: ready %s after the process started; the goal is 2s", strings.Join(d.args, " "), time.Since(begin).Round(time.Millisecond))
}

// Env is what a command needs to find the mesh.
func (d *Dev) Env() []string {
	return []string{"TMPDIR=" + d.Temp, "RHUMB_ADDR=http://" + d.Address(0, config.PortsOf(0, 0).HTTP)}
}

// Address gives where the i-th region has what the first region of a mesh
// without an offset has on the port.
func (d *Dev) Address(i, port int) string {
	return fmt.Sprintf("127.0.0.1:%d", port+d.offset+100*i)
}

// Run runs a command against the mesh; it must exit with the code.
func (d *Dev) Run(code int, args ...string) Result {
	d.t.Helper()
	res := Run(d.t, d.Env(), args...)
	if res.Code != code {
		d.t.Fatalf("rhumb %s: %s, want exit code %d:\n%s%s", strings.Join(args, " "), res.End, code, res.Stdout, res.Stderr)
	}
	return res
}

// PIDs gives the processes of the regions, by name; a region that does not run
// is missing.
func (d *Dev) PIDs() map[string]int {
	d.t.Helper()
	out := map[string]int{}
	for _, m := range regexp.MustCompile(`region (\S+) +pid (\d+)`).FindAllStringSubmatch(d.Run(0, "dev", "show").Stdout, -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	return out
}

// Leftovers is what there is in the folder for temporary files.
func (d *Dev) Leftovers() []string {
	d.t.Helper()
	var out []string
	entries, err := os.ReadDir(d.Temp)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

package process

import (
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestDevStopsOnSignalsWithoutATrace(t *testing.T) {
	for i, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for j, args := range [][]string{nil, {"--processes"}} {
			if testing.Short() && i != j {
				continue
			}
			d := StartDev(t, args...)
			pids := d.PIDs()
			d.Run(0, "topic", "create", "greetings")
			d.Run(0, "produce", "greetings", "hello")
			if len(d.Leftovers()) != 2 {
				t.Errorf("while it runs there should be a socket and a folder: %q", d.Leftovers())
			}
			d.Signal(signal)
			if code := d.Wait(); code != 0 {
				t.Errorf("%v %v: exit code %d\n%s", args, signal, code, d.Output())
			}
			if left := d.Leftovers(); len(left) > 0 {
				t.Errorf("%v %v: left %q", args, signal, left)
			}
			for name, pid := range pids {
				if alive(pid) {
					t.Errorf("%v %v: region %s runs as process %d", args, signal, name, pid)
				}
			}
		}
	}
}

// The story of the README with processes: kill -9 of regions and cut links lose
// nothing.
func TestDevProcessesAreKilledAndStarted(t *testing.T) {
	d := StartDev(t, "--processes", "--regions", "us,eu,ap")
	before := d.PIDs()
	if len(before) != 3 || before["us"] == before["eu"] || before["us"] == d.PID() {
		t.Fatalf("regions run as %v in %d", before, d.PID())
	}
	d.Run(0, "topic", "create", "orders")
	d.Run(0, "produce", "orders", "one", "--region", "us")
	d.Run(0, "verify", "us", "eu", "orders", "--wait", "60s")
	d.Run(0, "dev", "region", "kill", "us")
	if alive(before["us"]) {
		t.Error("us runs after its kill")
	}
	if res := d.Run(1, "dev", "region", "kill", "us"); !strings.Contains(res.Stderr, "not running") {
		t.Errorf("second kill: %s", res.Stderr)
	}
	eu := "RHUMB_ADDR=http://" + d.Address(1, config.PortsOf(0, 0).HTTP)
	if res := Run(t, []string{eu}, "verify", "us", "eu"); res.Code != 2 {
		t.Errorf("verify with a dead region exits with %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := Run(t, []string{eu}, "produce", "orders", "two"); res.Code != 0 {
		t.Errorf("produce in eu: %s", res.Stderr)
	}
	d.Run(0, "dev", "region", "start", "us")
	if pid := d.PIDs()["us"]; pid == 0 || pid == before["us"] {
		t.Errorf("us runs as %d, it was %d", pid, before["us"])
	}
	for _, pair := range [][2]string{{"us", "eu"}, {"us", "ap"}, {"eu", "ap"}} {
		d.Run(0, "verify", pair[0], pair[1], "orders", "--wait", "60s")
	}
	if res := d.Run(0, "consume", "orders", "--region", "ap", "-o", "json"); strings.Count(res.Stdout, "\n") != 2 {
		t.Errorf("ap holds:\n%s", res.Stdout)
	}
}

// A region that ends by itself is told of, and can be started again.
func TestDevTellsOfARegionThatDied(t *testing.T) {
	d := StartDev(t, "--processes")
	if err := syscall.Kill(d.PIDs()["eu"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.Await("region eu ended by itself")
	if _, runs := d.PIDs()["eu"]; runs {
		t.Error("eu is shown as running")
	}
	d.Run(0, "dev", "region", "start", "eu")
	d.Run(0, "topic", "create", "orders")
	d.Run(0, "produce", "orders", "one")
	d.Run(0, "verify", "us", "eu", "--wait", "60s")
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, d.Output())
	}
}

func TestDevLinks(t *testing.T) {
	d := StartDev(t)
	res := d.Run(0, "dev", "link", "us-eu", "set", "rtt=80ms,loss=1%,rate=100mbit")
	for _, want := range []string{"link us>eu  delay=40ms,loss=1%,rate=100000000bit", "link eu>us  delay=40ms,loss=1%,rate=100000000bit"} {
		if !strings.Contains(res.Stdout, want) {
			t.Errorf("no line %q:\n%s", want, res.Stdout)
		}
	}
	if strings.Contains(res.Stdout, "us>ap") {
		t.Errorf("more is shown than what was changed:\n%s", res.Stdout)
	}
	d.Run(0, "dev", "link", "*", "set", "rtt=0s,loss=0,rate=0")
	if res := d.Run(0, "dev", "link", "us>eu", "cut"); !strings.Contains(res.Stdout, "link us>eu  cut=true") || !strings.Contains(res.Stdout, "link eu>us  perfect") {
		t.Errorf("cut of one direction:\n%s", res.Stdout)
	}
	d.Run(0, "topic", "create", "orders")
	d.Run(0, "produce", "orders", "one")
	d.Run(0, "verify", "us", "ap", "orders", "--wait", "60s")
	d.Run(2, "verify", "us", "eu", "orders", "--wait", "300ms")
	d.Run(0, "dev", "link", "us>eu", "heal")
	d.Run(0, "verify", "us", "eu", "orders", "--wait", "60s")
	for _, wrong := range [][]string{{"us-mars", "cut"}, {"us-eu", "set", "rtt=fast"}, {"us-eu", "set", "rate=5"}} {
		d.Run(1, append([]string{"dev", "link"}, wrong...)...)
	}
	for _, usage := range [][]string{{"us-eu", "explode"}, {"us-eu", "set"}, {"us-eu", "cut", "rtt=1ms"}, {"us-eu"}} {
		d.Run(2, append([]string{"dev", "link"}, usage...)...)
	}
	d.Run(2, "dev", "region", "pause", "us")
	d.Run(1, "dev", "region", "kill", "mars")
}

// kill -9 of the supervisor takes the regions with it: nobody could stop them
// any more. The next mesh starts on the same ports, socket and data.
func TestDevKilledSupervisorLeavesNoRegions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only the Linux kernel ends children with their parent")
	}
	d := StartDev(t, "--processes", "--data", t.TempDir())
	d.Run(0, "topic", "create", "orders")
	d.Run(0, "produce", "orders", "one")
	pids := d.PIDs()
	d.Kill()
	for name, pid := range pids {
		Until(t, "region "+name+" ends with its supervisor", func() bool { return !alive(pid) })
	}
	if res := d.Run(2, "dev", "show"); !strings.Contains(res.Stderr, "is it running?") {
		t.Errorf("a command without a mesh: %s", res.Stderr)
	}
	d.launch()
	for _, region := range []string{"us", "eu", "ap"} {
		d.Run(0, "verify", "us", map[bool]string{true: "eu", false: region}[region == "us"], "orders", "--wait", "60s")
	}
	if res := d.Run(0, "consume", "orders", "--region", "eu"); !strings.Contains(res.Stdout, "one") {
		t.Errorf("eu holds:\n%s", res.Stdout)
	}
}

func TestDevBusyPortStartsNothing(t *testing.T) {
	first := StartDev(t)
	second := Launch(t, append(first.Env(), "RHUMB_DEV="+filepath.Join(first.Temp, "second.sock")), first.args...)
	if code := second.Wait(); code == 0 {
		t.Errorf("the second mesh exits with 0:\n%s", second.Output())
	}
	for i, region := range []string{"us", "eu", "ap"} {
		if want := "region " + region + ": kafka address " + first.Address(i, config.PortsOf(0, 0).Kafka); !strings.Contains(second.Output(), want) {
			t.Errorf("no line with %q:\n%s", want, second.Output())
		}
	}
	if left := first.Leftovers(); len(left) != 2 { // the socket and folder of the first
		t.Errorf("left: %q", left)
	}
	if third := Run(t, first.Env(), first.args...); third.Code == 0 || !strings.Contains(third.Stderr, "another `rhumb dev` is running") {
		t.Errorf("a third on the same socket exits with %d: %s", third.Code, third.Stderr)
	}
	first.Run(0, "topic", "create", "orders")
	first.Run(0, "produce", "orders", "one")
}

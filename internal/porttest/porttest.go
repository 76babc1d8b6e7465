package porttest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// The offsets: the ten of one step, and the steps. Regions stand 100 apart and
// there are at most ten, so no two offsets share a port. All ports stay between
// the default ones and those of outgoing connections (from 32768 on).
const (
	firstStep, lastStep, step = 8000, 22000, 1000
	perStep, stride           = 10, 10
)

// The default ports of the first region, by network.
var udpPorts, tcpPorts = []int{7650}, []int{8080, 9092}

// lockDir is where the locks lie. It stays the same for tests that move $TMPDIR.
var lockDir = filepath.Join(os.TempDir(), "rhumb-porttest-"+strconv.Itoa(os.Getuid()))

// Offset gives a number to add to the default ports of the first regions of
// this host. All of them are free, and nobody else gets them before the test has
// ended.
func Offset(t testing.TB, regions int) int {
	t.Helper()
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for base := firstStep; base <= lastStep; base += step {
		for i := range perStep {
			offset := base + i*stride
			unlock, err := lock(filepath.Join(lockDir, strconv.Itoa(offset)))
			if err != nil {
				continue
			}
			if free(offset, regions) {
				t.Cleanup(unlock)
				return offset
			}
			unlock()
		}
	}
	t.Fatal("porttest: every port is in use")
	return 0
}

// Hosts gives n loopback addresses that stand for machines of their own: every
// port of theirs is free, but for those of servers that bind every address. Nobody
// else gets them before the test has ended. Only Linux has them without more ado.
func Hosts(t testing.TB, n int) []string {
	t.Helper()
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for net := 1; net < 255; net++ {
		unlock, err := lock(filepath.Join(lockDir, "hosts-"+strconv.Itoa(net)))
		if err != nil {
			continue
		}
		t.Cleanup(unlock)
		var hosts []string
		for i := range n {
			hosts = append(hosts, fmt.Sprintf("127.9.%d.%d", net, i+1))
		}
		return hosts
	}
	t.Fatal("porttest: every host is in use")
	return nil
}

// Single ports lie below those of regions.
const firstSingle, lastSingle = 10100, 12599

// Ports gives n ports that are free for TCP and UDP, for servers that are no
// regions. Nobody else gets them before the test has ended.
func Ports(t testing.TB, n int) []int {
	t.Helper()
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		t.Fatal(err)
	}
	var ports []int
	for port := firstSingle; port <= lastSingle && len(ports) < n; port++ {
		unlock, err := lock(filepath.Join(lockDir, "port-"+strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if !isFree(port, true, true) {
			unlock()
			continue
		}
		t.Cleanup(unlock)
		ports = append(ports, port)
	}
	if len(ports) < n {
		t.Fatal("porttest: every single port is in use")
	}
	return ports
}

// lock takes a lock that ends with the process, if not before.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func free(offset, regions int) bool {
	for i := range regions {
		for _, port := range tcpPorts {
			if !isFree(port+offset+100*i, true, false) {
				return false
			}
		}
		for _, port := range udpPorts {
			if !isFree(port+offset+100*i, false, true) {
				return false
			}
		}
	}
	return true
}

// isFree tries to bind a port.
func isFree(port int, tcp, udp bool) bool {
	if tcp {
		l, err := net.Listen("tcp", address(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	if udp {
		c, err := net.ListenPacket("udp", address(port))
		if err != nil {
			return false
		}
		c.Close()
	}
	return true
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

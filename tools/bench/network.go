package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// network is some regions, each in a network namespace of its own, and the lines
// between them. Namespaces have no names, and so vanish with the last process in
// them. A nil network is the loopback interface.
//
// In each namespace there is a device "line" with the region's address, which leads to
// the other regions through this process, and a device "home", by which this process
// and its clients reach the region at the same address without delay.
type network struct {
	spaces []*os.File // namespaces
	tuns   []*os.File // their ends of the lines
	joint  *joint
}

// host is the address of a cluster's servers.
func (n *network) host(cluster int) string {
	if n == nil {
		return "127.0.0.1"
	}
	return fmt.Sprintf("10.77.0.%d", cluster+1)
}

// device is the network device that has the address.
func (n *network) device() string {
	if n == nil {
		return "lo"
	}
	return "line"
}

// enter calls fn where a cluster lives: what fn starts, lives there.
func (n *network) enter(cluster int, fn func() error) error {
	if n == nil {
		return fn()
	}
	return elsewhere(func() error { return unix.Setns(int(n.spaces[cluster].Fd()), unix.CLONE_NEWNET) }, fn)
}

// elsewhere calls fn on a thread that leave brought to another namespace, and brings
// the thread back.
func elsewhere(leave, fn func() error) error {
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	if err = leave(); err == nil {
		err = fn()
	}
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread stays locked: nobody else may get it
	}
	runtime.UnlockOSThread()
	return err
}

// newNetwork makes so many regions. The namespace of this process must be its own.
func newNetwork(regions int) (n *network, err error) {
	n = &network{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if err := ip(nil, "link", "set", "lo", "up"); err != nil {
		return nil, err
	}
	for i := range regions {
		if err := n.add(i); err != nil {
			return nil, fmt.Errorf("region %d of the network: %w", i, err)
		}
	}
	n.joint = newJoint(n.tuns)
	return n, nil
}

// add makes region i.
func (n *network) add(i int) error {
	near, far, addr := fmt.Sprintf("10.78.%d.1", i+1), fmt.Sprintf("10.78.%d.2", i+1), n.host(i)
	err := elsewhere(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() error {
		space, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		n.spaces = append(n.spaces, space)
		tun, err := openTUN("line")
		if err != nil {
			return err
		}
		n.tuns = append(n.tuns, tun)
		return errors.Join(
			ip(nil, "link", "set", "lo", "up"),
			ip(nil, "addr", "add", addr+"/24", "dev", "line"),
			ip(nil, "link", "set", "line", "mtu", "1500", "up", "txqueuelen", "10000"),
		)
	})
	if err != nil {
		return err
	}
	device := fmt.Sprintf("home%d", i+1)
	if err := errors.Join(
		ip(n.spaces[i], "link", "add", device, "type", "veth", "peer", "name", "home", "netns", "/proc/self/fd/3"),
		ip(nil, "addr", "add", near+"/30", "dev", device),
		ip(nil, "link", "set", device, "up"),
		n.enter(i, func() error {
			return errors.Join(ip(nil, "addr", "add", far+"/30", "dev", "home"), ip(nil, "link", "set", "home", "up"))
		}),
	); err != nil {
		return err
	}
	return ip(nil, "route", "add", addr+"/32", "via", far)
}

// close ends the lines. The namespaces end with the servers.
func (n *network) close() {
	if n == nil {
		return
	}
	for _, f := range append(n.tuns, n.spaces...) {
		f.Close()
	}
	if n.joint != nil {
		n.joint.close()
	}
	for i := range n.spaces {
		_ = ip(nil, "link", "del", fmt.Sprintf("home%d", i+1)) // with it goes its other end
	}
}

// ip calls ip(8). It sees the file, if there is one, as /proc/self/fd/3.
func ip(file *os.File, args ...string) error {
	cmd := exec.Command("ip", args...)
	if file != nil {
		cmd.ExtraFiles = []*os.File{file}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// openTUN makes a TUN device in the thread's namespace: a file from which packets are
// read that are sent to it, and the other way round (tuntap.rst of Linux).
func openTUN(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w (is the module tun loaded?)", err)
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("a TUN device: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processes are the servers of a system.
type processes struct {
	dir  string   // for their data and logs
	net  *network // where they live; nil: all in ours
	cmds []*exec.Cmd
	logs []string
}

// start starts a server of a cluster; what it prints goes to NAME.log.
func (p *processes) start(cluster int, name, program string, args ...string) error {
	log := filepath.Join(p.dir, name+".log")
	f, err := os.Create(log)
	if err != nil {
		return err
	}
	defer f.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, f, f
	// A group of its own: an interrupt from the terminal is for us, who then stop it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.net.enter(cluster, cmd.Start); err != nil {
		return err
	}
	p.cmds, p.logs = append(p.cmds, cmd), append(p.logs, log)
	return nil
}

// stop ends all, the last one first.
func (p *processes) stop() {
	for i := len(p.cmds) - 1; i >= 0; i-- {
		cmd := p.cmds[i]
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
	}
	p.cmds = nil
}

// lastWords gives the end of each log.
func (p *processes) lastWords() string {
	var out strings.Builder
	for _, log := range p.logs {
		b, _ := os.ReadFile(log)
		lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
		lines = lines[max(0, len(lines)-15):]
		fmt.Fprintf(&out, "\n%s:\n%s", filepath.Base(log), bytes.Join(lines, []byte("\n")))
	}
	return out.String()
}

// write makes a file in the directory.
func (p *processes) write(name, content string) error {
	return os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600)
}

// run runs a command to its end, where a cluster's servers are.
func (p *processes) run(ctx context.Context, cluster int, input, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdin = p.dir, strings.NewReader(input)
	return p.net.enter(cluster, func() error {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
		}
		return nil
	})
}

// until calls fn until it gives no error.
func until(ctx context.Context, limit time.Duration, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := fn(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// usage is what processes took.
type usage struct {
	cpu time.Duration // user and system time since they were started
	rss int64         // bytes that are resident now
}

// usage adds up what all servers took.
func (p *processes) usage() (u usage, err error) {
	for _, cmd := range p.cmds {
		one, err := usageOf(cmd.Process.Pid)
		if err != nil {
			return u, err
		}
		u.cpu += one.cpu
		u.rss += one.rss
	}
	return u, nil
}

// clockTicks is USER_HZ, in which Linux counts CPU time for programs.
const clockTicks = 100

// usageOf reads /proc/PID/stat: proc(5).
func usageOf(pid int) (usage, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	// The second field, the name, may hold spaces and ends with the last bracket.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 22 {
		return usage{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var n [3]int64
	for i, at := range []int{11, 12, 21} { // utime, stime, rss: fields 14, 15, 24
		if n[i], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return usage{}, err
		}
	}
	return usage{cpu: time.Duration(n[0]+n[1]) * time.Second / clockTicks, rss: n[2] * int64(os.Getpagesize())}, nil
}

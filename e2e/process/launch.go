package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Limit bounds each thing that a test waits for. It is generous: a machine may
// run several of these tests at once.
const Limit = 2 * time.Minute

// Process is a running rhumb.
type Process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	out  output
	done chan struct{} // closed when it has ended
}

// output keeps what a process prints on both streams.
type output struct {
	mu    sync.Mutex
	text  strings.Builder
	wrote chan struct{} // capacity 1
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// environment is this process's, and what a test adds. A binary with the race
// detector would wait for a second at each end.
func environment(more []string) []string {
	return append(append(os.Environ(), "GORACE=atexit_sleep_ms=10"), more...)
}

// Launch starts rhumb with the arguments. It is killed when the test ends, if it
// still runs then.
func Launch(t testing.TB, env []string, args ...string) *Process {
	t.Helper()
	return launch(t, exec.Command(Binary(t), args...), env, args)
}

// LaunchAfter is Launch for a process that a line of shell prepares, such as a lower
// limit of something.
func LaunchAfter(t testing.TB, line string, args ...string) *Process {
	t.Helper()
	return launch(t, exec.Command("sh", append([]string{"-c", line + ` && exec "$0" "$@"`, Binary(t)}, args...)...), nil, args)
}

func launch(t testing.TB, cmd *exec.Cmd, env, args []string) *Process {
	t.Helper()
	p := &Process{t: t, name: "rhumb " + strings.Join(args, " "), done: make(chan struct{}),
		out: output{wrote: make(chan struct{}, 1)}, cmd: cmd}
	p.cmd.Env = environment(env)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if strings.Contains(p.Output(), "WARNING: DATA RACE") {
			t.Errorf("%s:\n%s", p.name, p.Output())
		}
	})
	return p
}

// run owns a thread until the process has ended: on Linux the kernel kills the
// process when the thread that forked it ends, so that none outlives a test run
// that was killed itself.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	p.cmd.Wait() // its result is in ProcessState
	close(p.done)
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what it printed so far, on both streams.
func (p *Process) Output() string { return p.out.String() }

// Kill ends the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // an error means that it has ended
	<-p.done
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("%s: %v", p.name, err)
	}
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.done }

// Wait waits for the end and gives the exit code, -1 after a signal.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(Limit):
		p.Signal(syscall.SIGQUIT) // it prints its goroutines
		<-p.done
		p.t.Fatalf("%s still ran after %s:\n%s", p.name, Limit, p.Output())
		return -1
	}
}

// Await waits until the process has printed the text.
func (p *Process) Await(text string) {
	p.t.Helper()
	timeout := time.After(Limit)
	for !strings.Contains(p.Output(), text) {
		select {
		case <-p.out.wrote:
		case <-p.done:
			if strings.Contains(p.Output(), text) {
				return
			}
			p.t.Fatalf("%s ended with code %d before it printed %q:\n%s", p.name, p.cmd.ProcessState.ExitCode(), text, p.Output())
		case <-timeout:
			p.t.Fatalf("%s did not print %q within %s:\n%s", p.name, text, Limit, p.Output())
		}
	}
}

// Result is what a command that has ended left.
type Result struct {
	Code           int // -1 after a signal
	Stdout, Stderr string
	End            string // in words, such as "exit status 1" or "signal: killed"
}

// Run runs rhumb to its end.
func Run(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, Binary(t), args...)
	cmd.Env = environment(env)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("rhumb %s: %v", strings.Join(args, " "), err)
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), cmd.ProcessState.String()}
}

// Until polls a condition until it holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	Await(t, Limit, what, holds)
}

// Await is Until with a limit of its own.
func Await(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(limit)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

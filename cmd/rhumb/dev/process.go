package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// pollReady is how often a starting process is asked whether it is ready.
const pollReady = 20 * time.Millisecond

// process is a region in a process of its own.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}

	failed error // why it ended; read after done
	asked  bool  // to end, by stop or kill; written before the signal
}

// startProcess starts `rhumb server` for the region and waits until it is ready.
func startProcess(ctx context.Context, m *mesh, r *region) (instance, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(m.regionDir(r.name), "log.txt")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(exe, "server", "--config", r.config), log: path, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttributes()
	started := make(chan error, 1)
	m.wait.Go(func() { p.run(started) })
	if err := <-started; err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx, "http://"+r.at.admin+"/readyz"); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// run starts the process and waits for its end on a thread of its own, which is
// never given back: on Linux the child is killed when the thread that forked it
// ends, and must not be before.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	err := p.cmd.Wait()
	p.failed = fmt.Errorf("%w; its log is %s", errors.Join(err, errors.New(lastLine(p.log))), p.log)
	close(p.done)
}

func (p *process) waitReady(ctx context.Context, url string) error {
	tick := time.NewTicker(pollReady)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return p.failed
		case <-ctx.Done():
			return fmt.Errorf("%w; its log is %s", context.Cause(ctx), p.log)
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
	}
}

func (p *process) stop(ctx context.Context) error {
	p.asked = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.done:
		if p.cmd.ProcessState.Success() {
			return nil
		}
		return p.failed
	case <-ctx.Done():
		p.kill()
		return context.Cause(ctx)
	}
}

func (p *process) kill() {
	p.asked = true
	p.cmd.Process.Kill()
	<-p.done
}

func (p *process) ended() <-chan struct{} { return p.done }
func (p *process) pid() int               { return p.cmd.Process.Pid }

func (p *process) err() error {
	if p.asked {
		return nil
	}
	return p.failed
}

// lastLine gives the end of a log, where a process says why it gave up.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	const tail = 4 << 10
	if st, err := f.Stat(); err == nil {
		f.Seek(max(0, st.Size()-tail), 0)
	}
	b := make([]byte, tail)
	n, _ := f.Read(b)
	lines := strings.Split(strings.TrimSpace(string(b[:n])), "\n")
	return lines[len(lines)-1]
}

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// controlGroup makes a control group with a limit of [memoryLimit], the page cache
// included, and gives the line of shell that puts a process into it. In the end nothing
// in it may have been killed for want of memory.
func controlGroup(t testing.TB, name string) string {
	t.Helper()
	dir, limit, swap, events := "/sys/fs/cgroup/"+name, "memory.max", "memory.swap.max", "memory.events"
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil { // version 1
		dir, limit, swap, events = "/sys/fs/cgroup/memory/"+name, "memory.limit_in_bytes", "", "memory.oom_control"
	}
	switch err := os.Mkdir(dir, 0o755); {
	case errors.Is(err, os.ErrExist):
		return "echo $$ >" + dir + "/cgroup.procs" // the process before was in it
	case err != nil:
		t.Fatalf("a control group takes root: %v", err)
	}
	set := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	set(limit, fmt.Sprint(memoryLimit))
	if swap != "" {
		set(swap, "0")
	}
	t.Cleanup(func() {
		said, err := os.ReadFile(filepath.Join(dir, events))
		if err != nil || !strings.Contains("\n"+string(said), "\noom_kill 0\n") {
			t.Errorf("%s: %s (%v)", filepath.Join(dir, events), said, err)
		}
		if err := os.Remove(dir); err != nil {
			t.Errorf("the control group stays: %v", err)
		}
	})
	return "echo $$ >" + dir + "/cgroup.procs"
}

package config

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/offheap"
)

// fullMemory is the memory with which the budgets have their defaults: they add up to
// about as much.
const fullMemory = 2 << 30

// FitMemory scales the budgets that have their defaults down to a process that may
// take limit bytes, less than fullMemory, in proportion: but none below what one
// request, batch or group may take. What the file sets otherwise stays as it is.
func (c *Config) FitMemory(limit int64) {
	if limit <= 0 || limit >= fullMemory {
		return
	}
	d, l := Defaults().Limits, &c.Limits
	fit := func(v *Bytes, full, least Bytes) {
		if *v == full {
			*v = min(full, max(least, Bytes(float64(full)*float64(limit)/fullMemory)))
		}
	}
	batch := max(4<<20, c.Kafka.MessageMaxBytes)
	fit(&l.RequestMemory, d.RequestMemory, l.RequestBytes)
	fit(&l.ResponseMemory, d.ResponseMemory, batch)
	fit(&l.AppendMemory, d.AppendMemory, batch)
	fit(&l.TailCache, d.TailCache, 0)
	fit(&l.ReadCache, d.ReadCache, 4<<20)
	fit(&l.LinkMemory, d.LinkMemory, l.LinkWindow)
	fit(&l.LinkReceive, d.LinkReceive, batch)
	fit(&l.CompactionKeys, d.CompactionKeys, 4<<20)
	fit(&l.GroupMemory, d.GroupMemory, c.Groups.MaxBytes)
	fit(&l.OffsetMemory, d.OffsetMemory, c.Groups.MaxOffsetBytes)
}

// Budgets gives what all the budgets allow together, and whether a process that may take
// limit bytes has less, because of what the file sets: budgets keep it below its limit,
// so those that are larger do not.
func (c *Config) Budgets(limit int64) (sum int64, beyond bool) {
	own := Defaults()
	own.FitMemory(limit)
	sum = c.Limits.budgets()
	return sum, limit > 0 && sum > max(limit, own.Limits.budgets())
}

func (l *Limits) budgets() int64 {
	return int64(l.RequestMemory + l.ResponseMemory + l.AppendMemory + l.TailCache + l.ReadCache + l.LinkMemory + l.LinkReceive +
		l.CompactionKeys + l.GroupMemory + l.OffsetMemory + l.StateMemtable + l.StateCache)
}

// leastMemory is the least that a region may be given: below it, one request of the
// default size leaves too little for everything else.
const leastMemory = 256 << 20

// LimitMemory gives what the process may take for its data, in bytes, and makes it the
// limit of the Go runtime and of what is held outside its heap: 9/10 of limits.memory
// or of the limit of its control group on Linux, whichever is less; where the file says
// nothing, GOMEMLIMIT goes before the group's. A tenth is left for the program itself.
// 0: no limit.
func (c *Config) LimitMemory() int64 {
	limit := memoryLimit(int64(c.Limits.Memory), debug.SetMemoryLimit(-1), groupLimit(os.DirFS("/")))
	if limit > 0 {
		offheap.Limit(limit)
	}
	return limit
}

// memoryLimit chooses between what the file, the environment (math.MaxInt64: nothing)
// and the control group (0: nothing; a tenth is off already) say.
func memoryLimit(file, environment, group int64) int64 {
	switch file = file / 10 * 9; {
	case file > 0 && group > 0:
		return min(file, group)
	case file > 0:
		return file
	case environment != math.MaxInt64:
		return environment
	}
	return group
}

// groupLimit gives 9/10 of the lowest memory limit of the process's control groups,
// 0 if there is none. Inside a container its own group is the root of what it sees.
func groupLimit(root fs.FS) int64 {
	const base = "sys/fs/cgroup"
	names := []string{base + "/memory.max", base + "/memory/memory.limit_in_bytes"}
	said, _ := fs.ReadFile(root, "proc/self/cgroup")
	for _, line := range strings.Split(string(said), "\n") {
		parts := strings.SplitN(line, ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		for dir := filepath.Clean("/" + parts[2]); dir != "/"; dir = filepath.Dir(dir) {
			switch {
			case parts[1] == "":
				names = append(names, base+dir+"/memory.max")
			case strings.Contains(","+parts[1]+",", ",memory,"):
				names = append(names, base+"/memory"+dir+"/memory.limit_in_bytes")
			}
		}
	}
	lowest := int64(0)
	for _, name := range names {
		raw, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err == nil && n > 0 && n < 1<<50 && (lowest == 0 || n < lowest) { // version 1 says about 2^63 for none
			lowest = n
		}
	}
	return lowest / 10 * 9
}

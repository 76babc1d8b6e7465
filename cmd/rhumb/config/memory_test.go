package config

import (
	"math"
	"testing"
	"testing/fstest"
)

// TestBudgetsFitTheMemory: with every limit the budgets are valid and none is above
// its default, what the file set stays, and 512 MiB is shared in proportion.
func TestBudgetsFitTheMemory(t *testing.T) {
	for limit := int64(0); limit < 4<<30; limit += 64 << 20 {
		c, d := Defaults(), Defaults()
		c.FitMemory(limit)
		if err := c.checkLimits(); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
		if c.Limits.LinkMemory > d.Limits.LinkMemory || c.Limits.RequestMemory > d.Limits.RequestMemory {
			t.Errorf("limit %d: budgets above their defaults: %+v", limit, c.Limits)
		}
		if (limit == 0 || limit >= fullMemory) && c.Limits != d.Limits {
			t.Errorf("limit %d: %+v", limit, c.Limits)
		}
	}
	for limit := int64(leastMemory) / 10 * 9; limit < 4<<30; limit += 64 << 20 {
		c := Defaults()
		c.FitMemory(limit)
		if sum, beyond := c.Budgets(limit); beyond {
			t.Errorf("limit %d: defaults are beyond it, with %d", limit, sum)
		}
		c.Limits.RequestMemory = Bytes(limit)
		if sum, beyond := c.Budgets(limit); !beyond || sum <= limit {
			t.Errorf("limit %d: requests may take all of it, and the budgets, %d, are not beyond it", limit, sum)
		}
	}
	if _, beyond := (&Config{Limits: Limits{LinkMemory: 1 << 40}}).Budgets(0); beyond {
		t.Error("beyond no limit")
	}
	c := Defaults()
	c.Limits.AppendMemory = 99 << 20
	c.FitMemory(512 << 20)
	l := c.Limits
	if l.AppendMemory != 99<<20 || l.RequestMemory != 100<<20 || l.ResponseMemory != 64<<20 || l.LinkMemory != 64<<20 || l.LinkReceive != 32<<20 ||
		l.TailCache != 16<<20 || l.ReadCache != 8<<20 || l.OffsetMemory != 32<<20 || l.GroupMemory != 16<<20 || l.CompactionKeys != 8<<20 {
		t.Errorf("%+v", l)
	}
}

// TestWhoSaysHowMuchMemory: the file goes before the environment, which goes before the
// control group; but no file makes a process larger than its group.
func TestWhoSaysHowMuchMemory(t *testing.T) {
	for _, c := range []struct{ file, environment, group, want int64 }{
		{0, math.MaxInt64, 0, 0},
		{0, math.MaxInt64, 900, 900},
		{0, 700, 900, 700},
		{0, 1200, 900, 1200},
		{1000, 700, 0, 900},
		{1000, math.MaxInt64, 800, 800},
		{1000, 5000, 1800, 900},
	} {
		if got := memoryLimit(c.file, c.environment, c.group); got != c.want {
			t.Errorf("file %d, environment %d, group %d: %d, want %d", c.file, c.environment, c.group, got, c.want)
		}
	}
	for text, want := range map[string]bool{"0": true, "512MiB": true, "256MiB": true, "255MiB": false, "-1": false} {
		_, err := Parse([]byte("region: {name: us}\ndata_dir: d\nlimits: {memory: " + text + "}\n"))
		if (err == nil) != want {
			t.Errorf("memory %s: %v", text, err)
		}
	}
}

func TestLimitOfTheControlGroup(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"none":        {fstest.MapFS{}, 0},
		"unlimited":   {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("max\n")}, 0},
		"container":   {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1000\n")}, 900},
		"service":     {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n")}, 900},
		"its slice":   {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max"), "sys/fs/cgroup/a/memory.max": file("500\n")}, 450},
		"version 1":   {fstest.MapFS{"proc/self/cgroup": file("3:cpu:/x\n4:memory:/a\n"), "sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("1000\n")}, 900},
		"1, no limit": {fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		"nonsense":    {fstest.MapFS{"proc/self/cgroup": file("::::\n0\n"), "sys/fs/cgroup/memory.max": file("-5")}, 0},
	} {
		if got := groupLimit(c.files); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

package settle

import (
	"reflect"
	"testing"
)

func TestPlan(t *testing.T) {
	ready, stuck := Shard{ID: 1, End: 7, Applied: 7}, Shard{ID: 2, End: 9, Applied: 8}
	for _, c := range []struct {
		name      string
		closed    int
		copyAfter int
		shards    []Shard
		do        Do
		blocking  []Shard
	}{
		{"only the active file", 0, 4, []Shard{ready}, Nothing, nil},
		{"all applied", 1, 4, []Shard{ready}, Adopt, nil},
		{"one shard behind", 1, 4, []Shard{ready, stuck}, Wait, []Shard{stuck}},
		{"one below the limit", 3, 4, []Shard{stuck}, Wait, []Shard{stuck}},
		{"at the limit", 4, 4, []Shard{ready, stuck}, Copy, []Shard{stuck}},
		{"no shards", 2, 4, nil, Adopt, nil},
	} {
		if do, blocking := Plan(c.closed, c.copyAfter, c.shards); do != c.do || !reflect.DeepEqual(blocking, c.blocking) {
			t.Errorf("%s: got %d %v, want %d %v", c.name, do, blocking, c.do, c.blocking)
		}
	}
}

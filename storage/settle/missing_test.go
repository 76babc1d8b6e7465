package settle

import (
	"reflect"
	"testing"
)

func TestMissing(t *testing.T) {
	logs := func(ids ...uint64) (list []LogFile) {
		for _, id := range ids {
			list = append(list, LogFile{ID: id, Prev: id - 1})
		}
		return list
	}
	both := map[uint64]bool{1: true, 2: true}
	for _, c := range []struct {
		name    string
		files   Files
		missing []Missing
		deleted []uint64
	}{
		{"all there", Files{Logs: logs(1, 2, 3), Indexes: both, Settled: []uint64{1, 2}, Through: 2, Newest: 3, Known: true}, nil, nil},
		{"no row yet", Files{Logs: logs(1, 2, 3), Indexes: both, Settled: []uint64{1}, Through: 1, Newest: 3, Known: true}, nil, nil},
		{"log file deleted, index not yet", Files{Logs: logs(2, 3), Indexes: map[uint64]bool{1: false, 2: true}, Settled: []uint64{2}, Through: 2, Known: true}, nil, nil},
		{"deletion taken back", Files{Logs: logs(1, 2, 3), Indexes: map[uint64]bool{2: true}, Settled: []uint64{2}, Through: 2, Known: true}, nil, []uint64{1}},
		{"last settled file deleted", Files{Logs: logs(1, 3), Indexes: map[uint64]bool{1: true}, Settled: []uint64{1}, Through: 2, Known: true}, nil, nil},
		{"log file that is needed", Files{Logs: logs(2, 3), Indexes: both, Settled: []uint64{2}, Through: 2, Known: true}, []Missing{{File: 1}}, nil},
		{"log file and index", Files{Logs: logs(2, 3), Indexes: map[uint64]bool{2: true}, Settled: []uint64{1, 2}, Through: 2, Known: true}, []Missing{{File: 1}}, nil},
		{"index", Files{Logs: logs(1, 2, 3), Indexes: map[uint64]bool{1: true}, Settled: []uint64{1, 2}, Through: 2, Known: true}, []Missing{{File: 2, Index: true}}, nil},
		{"unsettled file", Files{Logs: logs(1, 2, 4), Indexes: both, Settled: []uint64{1, 2}, Through: 2, Newest: 4, Known: true}, []Missing{{File: 3}}, nil},
		{"newest file", Files{Logs: logs(1, 2), Indexes: both, Settled: []uint64{1, 2}, Through: 2, Newest: 3, Known: true}, []Missing{{File: 3}}, nil},
		{"cut short", Files{Logs: []LogFile{{ID: 1, Short: 7}, {ID: 2, Prev: 1}, {ID: 3, Prev: 2}}, Indexes: both, Settled: []uint64{2}, Through: 2, Known: true}, []Missing{{File: 1, Short: 7}}, nil},
		{"cut short and not needed", Files{Logs: []LogFile{{ID: 1, Short: 7}, {ID: 2, Prev: 1}, {ID: 3, Prev: 2}}, Indexes: map[uint64]bool{1: false, 2: true}, Settled: []uint64{2}, Through: 2, Known: true}, nil, nil},
		{"older version", Files{Logs: logs(1, 2, 3), Indexes: both}, nil, nil},
		{"older version, last settled file deleted", Files{Logs: logs(1, 2, 4), Indexes: both}, nil, nil},
		{"older version, index", Files{Logs: logs(1, 2, 3), Indexes: map[uint64]bool{2: true}}, []Missing{{File: 1, Index: true}}, nil},
		{"older version, unsettled file", Files{Logs: logs(1, 2, 3, 5), Indexes: both}, []Missing{{File: 4}}, nil},
	} {
		missing := c.files.Missing()
		if !reflect.DeepEqual(missing, c.missing) {
			t.Errorf("%s: missing %v, want %v", c.name, missing, c.missing)
		}
		var deleted []uint64
		for _, l := range c.files.Logs {
			if len(missing) == 0 && c.files.Deleted(l.ID) {
				deleted = append(deleted, l.ID)
			}
		}
		if !reflect.DeepEqual(deleted, c.deleted) {
			t.Errorf("%s: deleted %v, want %v", c.name, deleted, c.deleted)
		}
	}
}

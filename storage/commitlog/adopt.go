package commitlog

import (
	"path/filepath"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// adopt takes over what was recovered.
func (l *Log) adopt(heads []*head, spares []string, kept []*tail, rep *Report) {
	l.w.nextID = 1
	for _, h := range heads {
		l.w.nextID = max(l.w.nextID, h.name+1)
	}
	for _, path := range spares {
		id, _ := parseName(filepath.Base(path), freeSuffix)
		l.w.nextID = max(l.w.nextID, id+1)
	}
	l.files.flushed = l.w.nextID
	if len(kept) == 0 {
		return
	}
	t := kept[len(kept)-1]
	l.states.reset(t.after)
	l.w.tail = Mark{File: t.id, Pos: t.end}
	l.flushed, l.writtenEnd = l.w.tail, l.w.tail
	rep.Files += l.adoptOld(heads, kept[0].name, rep)
	for i, t := range kept {
		for _, older := range l.files.m {
			for shard, low := range t.low {
				if last, ok := older.last[shard]; ok && last >= low {
					older.last[shard] = low - 1
				}
			}
		}
		l.files.m[t.id] = &logFile{id: t.id, prev: t.prev.File, end: kept[i].end, last: t.last, shared: true}
	}
	for _, f := range l.files.m {
		for shard, last := range f.last {
			l.files.top[shard] = max(l.files.top[shard], last)
		}
	}
}

// adoptOld takes over the files before the first that was read as a whole: what they
// hold is known from their checkpoint and the next one's.
func (l *Log) adoptOld(heads []*head, first uint64, rep *Report) (n int) {
	var next *head // the next file with a checkpoint
	for _, h := range slices.Backward(heads) {
		switch {
		case h.name >= first:
			if h.name == first {
				next = h
			}
			continue
		case !h.started || !h.hasStart:
			rep.Damaged = append(rep.Damaged, &CorruptError{File: h.path, ID: h.name, Reason: "header or checkpoint is damaged"})
		}
		f := &logFile{id: h.name, prev: h.prev.File, end: h.size, anyEnd: true, shared: true, last: map[rhumb.ShardID]uint64{}}
		if next.prev.File == h.name {
			f.end, f.anyEnd = next.prev.Pos, false
		}
		least := int64(framesStart)
		if !f.anyEnd {
			least = f.end
		}
		if aligned(h.size) < least { // the last frame's padding need not be there
			f.short = least - h.size
		}
		before := map[rhumb.ShardID]ShardState{}
		for _, s := range h.checkpoint {
			before[s.Shard] = s
		}
		for _, s := range next.checkpoint {
			if b := before[s.Shard]; !h.hasStart || b.Last != s.Last || b.LastTerm != s.LastTerm {
				f.last[s.Shard] = s.Last
			}
		}
		l.files.m[h.name] = f
		if n++; h.hasStart {
			next = h
		}
	}
	return n
}

// noteNewest notes which file is the last one, before the files that lie behind it
// go.
func (l *Log) noteNewest() error {
	last := l.w.tail.File
	if last == 0 && l.newest.seq == 0 {
		return nil
	}
	return l.setNewest(last, last)
}

// tidy makes spares of files that hold nothing, deletes spares beyond the limit, and
// makes all names safe, so that no file that was cut comes back.
func (l *Log) tidy(heads []*head, spares []string) error {
	if err := l.noteNewest(); err != nil {
		return err
	}
	changed := false
	for _, path := range spares {
		if len(l.files.spares) < l.cfg.MaxSpares {
			l.files.spares = append(l.files.spares, path)
			continue
		}
		changed = true
		if err := l.cfg.FS.Remove(path); err != nil {
			return err
		}
	}
	for _, h := range heads {
		if l.files.m[h.name] != nil {
			continue
		}
		changed = true
		retire := l.files.retirePath
		if h.torn || h.started && !h.hasStart {
			retire = l.cfg.FS.Remove // a spare shows one life whole, or nothing: see readTraces
		}
		if err := retire(h.path); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return l.cfg.FS.SyncDir(filepath.Clean(l.cfg.Dir))
}

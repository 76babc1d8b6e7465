package commitlog

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Report says what Open found.
type Report struct {
	Files int // that hold frames
	// CutAt is where the torn tail was cut and CutBytes how far traces of frames
	// reached behind it; 0 if nothing was torn. CutReason is for people.
	CutAt     Mark
	CutBytes  int64
	CutReason string
	// Flushed is the highest flushed mark found; Rewritten is how many bytes above it
	// were written and flushed again.
	Flushed   Mark
	Rewritten int64
	// Damaged are files, older than what recovery needs, whose beginning cannot be
	// read: what they hold is lost here, the log works.
	Damaged []*CorruptError
}

// head is what the beginning of a file says.
type head struct {
	fileHeader
	path       string
	name       uint64 // id by its name
	size       int64
	started    bool // the header is intact and of this file, not of an earlier life of it
	checkpoint []ShardState
	hasStart   bool // checkpoint is intact
	torn       bool // not started, but written to
}

// tail is a file that recovery read as a whole.
type tail struct {
	*head
	run
	after []ShardState             // of all shards behind its last frame
	last  map[rhumb.ShardID]uint64 // the last index that it holds
	low   map[rhumb.ShardID]uint64 // the lowest index that it cancels from
}

// Open recovers the log in cfg.Dir. Damage to what was flushed is a [CorruptError],
// a format that this version cannot read is of kind unsupported; neither changes
// anything on disk. The log takes frames when Run is called.
func Open(cfg Config) (*Log, Report, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, Report{}, err
	}
	l := newLog(cfg)
	var rep Report
	if err := vfs.MakeDir(cfg.FS, cfg.Dir); err != nil {
		return nil, rep, err
	}
	heads, spares, err := l.readHeads()
	if err != nil {
		return nil, rep, err
	}
	tails, first, err := l.readTails(heads, &rep)
	if err != nil {
		return nil, rep, err
	}
	kept, err := checkTails(heads, tails, first, &rep)
	if err == nil {
		err = l.checkNewest(heads)
	}
	if err != nil {
		return nil, rep, err
	}
	if err := l.secure(kept, &rep); err != nil {
		return nil, rep, err
	}
	l.adopt(heads, spares, kept, &rep)
	if err := l.tidy(heads, spares); err != nil {
		return nil, rep, errors.Join(err, l.files.close())
	}
	return l, rep, nil
}

func newLog(cfg Config) *Log {
	l := &Log{cfg: cfg, runDone: make(chan struct{})}
	l.writeCond.L, l.syncCond.L, l.prepCond.L = &l.mu, &l.mu, &l.mu
	l.pool.New = func() any { return new(request) }
	l.states.reset(nil)
	l.files = fileSet{
		fs: cfg.FS, dir: cfg.Dir, maxOpen: cfg.maxFiles(), maxSpares: cfg.MaxSpares,
		m: map[uint64]*logFile{}, top: map[rhumb.ShardID]uint64{},
	}
	return l
}

// readHeads reads the beginning of each file.
func (l *Log) readHeads() (heads []*head, spares []string, err error) {
	names, err := l.cfg.FS.List(l.cfg.Dir)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names { // sorted, so ids grow
		path := filepath.Join(l.cfg.Dir, name)
		if _, ok := parseName(name, freeSuffix); ok {
			spares = append(spares, path)
		}
		if _, ok := parseName(name, logSuffix); ok {
			h, err := readHead(l.cfg.FS, path)
			if err != nil {
				return nil, nil, fmt.Errorf("commitlog: open %s: %w", path, err)
			}
			heads = append(heads, h)
		}
	}
	return heads, spares, nil
}

func readHead(fs vfs.FS, path string) (*head, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := &head{path: path}
	h.name, _ = parseName(filepath.Base(path), logSuffix)
	if h.size, err = f.Size(); err != nil {
		return nil, err
	}
	block := make([]byte, framesStart)
	if n, err := f.ReadAt(block, 0); n < len(block) {
		if err != io.EOF {
			return nil, err
		}
		return h, nil
	}
	h.fileHeader, _, err = parseFileBlock(block)
	if err == errNoFrame {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	if h.started = h.id == h.name; !h.started {
		return h, nil
	}
	s := &scanner{r: f, size: h.size, seed: h.seed(), few: true}
	fh, err := s.header(framesStart)
	if err == errNoFrame || err == errTornBody {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	body, err := s.body(&fh, framesStart)
	if err != nil {
		return nil, err
	}
	if fh.kind == KindCheckpoint && fh.checkBody(body) == nil {
		h.checkpoint, err = decodeCheckpoint(slices.Clone(fh.extra(body)))
		h.hasStart = err == nil
	}
	return h, nil
}

// readTails reads files as a whole, from the newest back to the first whose
// checkpoint can be trusted: all that was before it was flushed, or is gone because
// it was removed, which only flushed files are. It gives them oldest first; first
// is false if none can be trusted, so that the log has no beginning.
func (l *Log) readTails(heads []*head, rep *Report) (tails []*tail, first bool, err error) {
	ids := map[uint64]bool{}
	for _, h := range heads {
		ids[h.name] = true
	}
	for _, h := range slices.Backward(heads) {
		if !h.started {
			if err := l.readHeadless(h, rep); err != nil {
				return nil, false, err
			}
			continue
		}
		t, err := l.readTail(h)
		if err != nil {
			return nil, false, err
		}
		tails = append(tails, t)
		rep.saw(t.mark)
		if h.hasStart && (!ids[h.prev.File] || !rep.Flushed.Less(h.prev)) {
			first = true
			break
		}
	}
	slices.Reverse(tails)
	return tails, first, nil
}

func (r *Report) saw(mark Mark) {
	if r.Flushed.Less(mark) {
		r.Flushed = mark
	}
}

// readHeadless looks at a file that has no header. If it was begun, that is a torn
// tail, or damage, as for anything else: the flushed marks in it tell.
func (l *Log) readHeadless(h *head, rep *Report) error {
	f, err := l.cfg.FS.Open(h.path)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := readTraces(f, h)
	if err != nil {
		return fmt.Errorf("commitlog: read %s: %w", h.path, err)
	}
	rep.saw(t.mark)
	if h.torn = t.end > 0; h.torn {
		rep.CutBytes += t.end
		rep.CutReason = fmt.Sprintf("file %016x has no header", h.name)
	}
	return nil
}

func (l *Log) readTail(h *head) (*tail, error) {
	f, err := l.cfg.FS.Open(h.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &tail{head: h, last: map[rhumb.ShardID]uint64{}, low: map[rhumb.ShardID]uint64{}}
	var states shardStates
	states.reset(h.checkpoint)
	s := &scanner{r: f, size: h.size, seed: h.seed()}
	t.run, err = s.scan(framesStart, func(pos int64, fh *frameHeader, body []byte) error {
		if fh.kind == KindCheckpoint {
			return nil
		}
		c := fh.change(body)
		states.apply(&c)
		t.note(&c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("commitlog: read %s: %w", h.path, err)
	}
	t.after = states.list()
	return t, nil
}

// note is what fileSet.apply does, for one file; low tells the files before it.
func (t *tail) note(c *change) {
	if c.first == 0 {
		return
	}
	cancel := c.first
	switch c.kind {
	case KindSnapshotData:
		t.last[c.shard] = max(t.last[c.shard], c.last)
		return
	case KindSnapshot:
		cancel = c.last + 1
	}
	if low, ok := t.low[c.shard]; !ok || cancel < low {
		t.low[c.shard] = cancel
	}
	t.last[c.shard] = c.last
}

// checkTails finds where the log ends: it gives the files up to there, none if the
// log has no beginning. What follows is a torn tail if it lies at or above the
// flushed mark, else corruption.
func checkTails(heads []*head, tails []*tail, first bool, rep *Report) ([]*tail, error) {
	var kept []*tail
	cut := &CorruptError{Reason: "nothing that the log can start with"}
	end := Mark{} // of what is kept
	for i, t := range tails {
		follows := i == 0 && first || i > 0 && t.prev == end
		if !follows || !t.hasStart {
			if follows || i == 0 && !t.hasStart {
				*cut = CorruptError{File: t.path, ID: t.id, Pos: framesStart, Reason: "checkpoint frame is damaged"}
			}
			break
		}
		kept = append(kept, t)
		end = Mark{File: t.id, Pos: t.end}
		*cut = CorruptError{File: t.path, ID: t.id, Pos: t.end, Shard: t.shard, IsShard: t.isShard, Reason: t.reason}
		if t.reason == "" {
			cut.Reason = "frames are missing"
		}
	}
	if end.Less(rep.Flushed) {
		nameUnstarted(heads, kept, rep.Flushed, cut)
		return nil, cut
	}
	rep.Files = len(kept)
	for i, t := range tails {
		switch {
		case i == len(kept)-1:
			rep.CutBytes += max(t.beyond-t.end, 0)
		case i >= len(kept):
			rep.CutBytes += max(t.end, t.beyond)
		}
	}
	if rep.CutBytes > 0 {
		rep.CutAt = end
		if rep.CutReason == "" {
			rep.CutReason = cut.Reason
		}
	}
	return kept, nil
}

// nameUnstarted points cut at a file without a header if the mark says that there
// were flushed frames in one.
func nameUnstarted(heads []*head, kept []*tail, flushed Mark, cut *CorruptError) {
	for _, h := range heads {
		if !h.started && h.name <= flushed.File && (len(kept) == 0 || h.name > kept[len(kept)-1].id) {
			*cut = CorruptError{File: h.path, ID: h.name, Reason: "file header is damaged"}
			return
		}
	}
}

// secure writes what is kept above the flushed mark again, sets the last file's size to
// its end, and flushes: until now it may only be in the system's memory, from a flush
// that failed.
func (l *Log) secure(kept []*tail, rep *Report) error {
	for i, t := range kept {
		from := int64(0)
		if t.id < rep.Flushed.File {
			from = t.end
		} else if t.id == rep.Flushed.File {
			from = min(rep.Flushed.Pos, t.end)
		}
		// Longer because of what was preallocated or cut, or shorter by some padding.
		resize := i == len(kept)-1 && t.size != t.end
		if from >= t.end && !resize {
			continue
		}
		f, err := l.cfg.FS.OpenReadWrite(t.path)
		if err != nil {
			return err
		}
		err = rewrite(f, from, min(t.end, t.size))
		if err == nil && resize {
			err = f.Truncate(t.end)
		}
		if err == nil {
			err = f.Sync()
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("commitlog: secure %s: %w", t.path, err)
		}
		rep.Rewritten += t.end - from
	}
	return nil
}

func rewrite(f vfs.File, from, to int64) error {
	buf := make([]byte, min(1<<20, to-from))
	for from < to {
		b := buf[:min(int64(len(buf)), to-from)]
		if n, err := f.ReadAt(b, from); n < len(b) {
			return err
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}

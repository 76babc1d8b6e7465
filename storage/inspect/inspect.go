// Package inspect says what is in a data directory and what of it is damaged. It
// only reads, takes no lock, and works on a directory in use or on a damaged copy:
// what a file says stands on its own. `rhumb log dump` and `rhumb log verify` are
// its two faces.
//
// In a directory that is in use the newest log file grows while it is read; what
// looks torn there may be a frame that is being written.
package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/commitlog"
	"github.com/rhumbmq/rhumb/storage/index"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Verdict is the outcome of a look at a directory. As an exit status it is 0 for
// sound, 1 for damaged, 2 for one that cannot be read at all.
type Verdict int

// The verdicts.
const (
	Sound      Verdict = 0 // at most a torn tail, which the next start cuts
	Damaged    Verdict = 1
	Unreadable Verdict = 2
)

// Problem is something that is not as it was written.
type Problem struct {
	File string // within the directory
	Pos  int64  // in bytes; -1 if it concerns the whole file
	What string
	// Torn says that it lies above the flushed mark: the rest of a crash, which
	// nobody was promised.
	Torn bool
}

// String names file and position.
func (p Problem) String() string {
	kind, at := "damaged", ""
	if p.Torn {
		kind = "torn"
	}
	if p.Pos >= 0 {
		at = fmt.Sprintf(" at %d", p.Pos)
	}
	return fmt.Sprintf("%s: %s%s: %s", p.File, kind, at, p.What)
}

// Report is what was found.
type Report struct {
	Format   storage.FormatInfo
	Logs     int // files, and so on
	Indexes  int
	Segments int
	Frames   int
	Entries  int
	Batches  int // that indexes and segments name
	Problems []Problem
	failed   error
}

// Verdict sums the report up.
func (r *Report) Verdict() Verdict {
	if r.failed != nil {
		return Unreadable
	}
	for _, p := range r.Problems {
		if !p.Torn {
			return Damaged
		}
	}
	return Sound
}

// Err is why the directory could not be read at all, nil if it could. It is
// the caller's to tell: nothing is printed then.
func (r *Report) Err() error { return r.failed }

// printer writes lines and remembers the first error of the writer.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) linef(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// look is one inspection.
type look struct {
	fs  vfs.FS
	dir string
	out *printer
	// detail prints every frame and block, not only files and problems.
	detail bool
	report *Report
	logs   []logFile
	// unread are log files that are there and could not be read, by id; indexes the
	// directories of index files, nil where it could not be read; ends the last entries.
	unread  map[uint64]bool
	indexes map[uint64]*index.Directory
	ends    map[rhumb.ShardID]uint64
}

type logFile struct {
	name   string
	report commitlog.FileReport
}

// Dump prints what is in the logs, indexes and segments of a data directory, frame
// by frame and block by block, and what is damaged. The error is the writer's.
func Dump(w io.Writer, fsys vfs.FS, dir string) (*Report, error) { return inspect(w, fsys, dir, true) }

// Verify checks every frame, block and batch of a data directory, and every block of
// its state database, and prints what is damaged and a summary. The error is the writer's.
func Verify(w io.Writer, fsys vfs.FS, dir string) (*Report, error) {
	return inspect(w, fsys, dir, false)
}

func inspect(w io.Writer, fsys vfs.FS, dir string, detail bool) (*Report, error) {
	l := &look{fs: fsys, dir: dir, out: &printer{w: w}, detail: detail, report: &Report{},
		unread: map[uint64]bool{}, indexes: map[uint64]*index.Directory{}, ends: map[rhumb.ShardID]uint64{}}
	r := l.report
	var err error
	if r.Format, err = storage.ReadFormat(fsys, dir); err != nil {
		below := ""
		if errors.Is(err, fs.ErrNotExist) {
			below = hint(fsys, dir)
		}
		r.failed = fmt.Errorf("%s: %w%s", dir, err, below)
		return r, l.out.err
	}
	l.out.linef("FORMAT version %d (readers from version %d), data %v, mesh %v, %d shards",
		r.Format.Version, r.Format.MinReader, r.Format.Data, r.Format.Mesh, r.Format.Shards)
	l.each(logFolder, ".log", l.lookAtLog)
	l.judgeLogs()
	l.each("index", ".idx", l.lookAtIndex)
	l.each("segments", ".seg", l.lookAtSegment)
	l.judgeFiles()
	for _, p := range r.Problems {
		l.out.linef("%v", p)
	}
	l.out.linef("%d log files, %d indexes, %d segments; %d frames, %d entries, %d batches; %d problems",
		r.Logs, r.Indexes, r.Segments, r.Frames, r.Entries, r.Batches, len(r.Problems))
	return r, l.out.err
}

// each calls fn for the files of a folder with that suffix, in order. The folder
// may be missing.
func (l *look) each(folder, suffix string, fn func(name string)) {
	names, err := l.fs.List(filepath.Join(l.dir, folder))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			l.problem(Problem{File: folder, Pos: -1, What: err.Error()})
		}
		return
	}
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			fn(filepath.Join(folder, n))
		}
	}
}

func (l *look) problem(p Problem) { l.report.Problems = append(l.report.Problems, p) }

func (l *look) detailf(format string, args ...any) {
	if l.detail {
		l.out.linef(format, args...)
	}
}

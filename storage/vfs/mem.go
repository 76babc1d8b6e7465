package vfs

import (
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// MemConfig sets up a [Mem]. The zero value is an endless disk without faults.
type MemConfig struct {
	Hook     func(op Op) error // see [Mem.SetHook]
	Capacity int64             // see [Mem.SetCapacity]
}

// Mem is a file system in memory that knows what is safe and what a crash may
// lose. It is safe for concurrent use.
type Mem struct {
	mu       sync.Mutex
	hook     func(op Op) error
	capacity int64
	usage    func() (Usage, error)
	noDirect error
	ops      int64
	used     int64 // bytes of all files that have a name or a handle
	root     *node
	moves    []move // of names, not yet safe
	locks    map[string]bool
	clock    func() time.Time
}

// node is a file or a folder. Names are two maps, as they are now and as they
// are safe; likewise content.
type node struct {
	modified time.Time

	// Folders only.
	names, safeNames map[string]*node

	// Files only.
	now, safe image
	pending   []change // in order, from safe to now
	handles   int
	links     int // names of it, 0 or 1
}

// move is a change of one or two names that happens as one step.
type move struct {
	dirs  [2]*node
	names [2]string
	nodes [2]*node // nil removes the name
}

// NewMem makes an empty file system.
func NewMem(cfg MemConfig) *Mem {
	return &Mem{hook: cfg.Hook, capacity: cfg.Capacity, root: newDir(), locks: map[string]bool{}, clock: time.Now}
}

func newDir() *node {
	return &node{names: map[string]*node{}, safeNames: map[string]*node{}}
}

func (n *node) isDir() bool { return n.names != nil }

// find walks to name; the caller holds mu.
func (m *Mem) find(name string) (*node, error) {
	n := m.root
	for part := range parts(name) {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[part]; n == nil {
			return nil, fs.ErrNotExist
		}
	}
	return n, nil
}

// parts gives the names on the way to a path; relative paths start at the root.
func parts(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		rest := filepath.ToSlash(filepath.Clean(string(filepath.Separator) + name))
		for len(rest) > 1 {
			rest = rest[1:]
			end := 0
			for end < len(rest) && rest[end] != '/' {
				end++
			}
			if !yield(rest[:end]) {
				return
			}
			rest = rest[end:]
		}
	}
}

// parent finds the folder that holds name.
func (m *Mem) parent(name string) (*node, string, error) {
	dir, err := m.find(filepath.Dir(filepath.Clean(string(filepath.Separator) + name)))
	if err == nil && !dir.isDir() {
		err = syscall.ENOTDIR
	}
	return dir, filepath.Base(name), err
}

// do makes a move visible and pending.
func (m *Mem) do(mv move) {
	for i, dir := range mv.dirs {
		if dir == nil {
			continue
		}
		if old := dir.names[mv.names[i]]; old != nil {
			old.links--
			m.forget(old)
		}
		if n := mv.nodes[i]; n != nil {
			n.links++
			dir.names[mv.names[i]] = n
		} else {
			delete(dir.names, mv.names[i])
		}
	}
	m.moves = append(m.moves, mv)
}

// withCauses adds to the moves marked in keep the earlier ones that they build upon:
// of the same name, or of the same file or folder. No journal keeps a rename and
// forgets an earlier one of the same file, which would give it two names.
func withCauses(moves []move, keep []bool) {
	type place struct {
		dir  *node
		name string
	}
	places, nodes := map[place]bool{}, map[*node]bool{}
	for i := len(moves) - 1; i >= 0; i-- {
		mv := &moves[i]
		for j, dir := range mv.dirs {
			keep[i] = keep[i] || dir != nil && (places[place{dir, mv.names[j]}] || mv.nodes[j] != nil && nodes[mv.nodes[j]])
		}
		if !keep[i] {
			continue
		}
		for j, dir := range mv.dirs {
			if dir != nil {
				places[place{dir, mv.names[j]}] = true
				nodes[mv.nodes[j]] = true
			}
		}
	}
}

func (mv *move) makeSafe() {
	for i, dir := range mv.dirs {
		switch {
		case dir == nil:
		case mv.nodes[i] != nil:
			dir.safeNames[mv.names[i]] = mv.nodes[i]
		default:
			delete(dir.safeNames, mv.names[i])
		}
	}
}

// forget gives back the space of a file that nobody can reach.
func (m *Mem) forget(n *node) {
	if !n.isDir() && n.links == 0 && n.handles == 0 {
		m.used -= n.now.size
	}
}

// Create makes or empties a file.
func (m *Mem) Create(name string) (File, error) { return m.open(OpCreate, name, true) }

// OpenReadWrite opens a file, making it if absent.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(OpOpen, name, true) }

// Open opens a file for reading.
func (m *Mem) Open(name string) (File, error) { return m.open(OpOpen, name, false) }

func (m *Mem) open(kind OpKind, name string, write bool) (File, error) {
	if err := m.before(Op{Kind: kind, Name: name}); err != nil {
		return nil, pathError(kind, name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(name)
	if err != nil {
		return nil, pathError(kind, name, err)
	}
	n := dir.names[base]
	switch {
	case n == nil && !write:
		return nil, pathError(kind, name, fs.ErrNotExist)
	case n == nil:
		n = &node{modified: m.clock(), now: newImage(), safe: newImage()}
		m.do(move{dirs: [2]*node{dir}, names: [2]string{base}, nodes: [2]*node{n}})
	case n.isDir():
		return nil, pathError(kind, name, syscall.EISDIR)
	}
	n.handles++
	f := &memFile{m: m, n: n, name: name, readOnly: !write}
	if kind == OpCreate && n.now.size > 0 {
		f.change(change{})
	}
	return f, nil
}

// Remove removes a name.
func (m *Mem) Remove(name string) error {
	return m.rename(Op{Kind: OpRemove, Name: name}, "")
}

// Rename moves a name in one step.
func (m *Mem) Rename(oldName, newName string) error {
	return m.rename(Op{Kind: OpRename, Name: oldName}, newName)
}

func (m *Mem) rename(op Op, newName string) error {
	if err := m.before(op); err != nil {
		return pathError(op.Kind, op.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(op.Name)
	if err != nil {
		return pathError(op.Kind, op.Name, err)
	}
	n := dir.names[base]
	mv := move{dirs: [2]*node{dir}, names: [2]string{base}}
	switch {
	case n == nil:
		return pathError(op.Kind, op.Name, fs.ErrNotExist)
	case op.Kind == OpRemove && len(n.names) > 0:
		return pathError(op.Kind, op.Name, syscall.ENOTEMPTY)
	case op.Kind == OpRename:
		if mv.dirs[1], mv.names[1], err = m.parent(newName); err != nil {
			return pathError(op.Kind, newName, err)
		}
		target := mv.dirs[1].names[mv.names[1]]
		if target == n {
			return nil
		}
		if target != nil && (target.isDir() != n.isDir() || len(target.names) > 0) {
			return pathError(op.Kind, newName, fs.ErrExist)
		}
		mv.nodes[1] = n
		n.links++ // so that it is never unreachable in between
		defer func() { n.links-- }()
	}
	m.do(mv)
	return nil
}

// MkdirAll makes a folder and those above it.
func (m *Mem) MkdirAll(dir string) error {
	if err := m.before(Op{Kind: OpMkdir, Name: dir}); err != nil {
		return pathError(OpMkdir, dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.root
	for part := range parts(dir) {
		next := n.names[part]
		if next == nil {
			next = newDir()
			next.modified = m.clock()
			m.do(move{dirs: [2]*node{n}, names: [2]string{part}, nodes: [2]*node{next}})
		}
		if !next.isDir() {
			return pathError(OpMkdir, dir, syscall.ENOTDIR)
		}
		n = next
	}
	return nil
}

// List gives the sorted names in a folder.
func (m *Mem) List(dir string) ([]string, error) {
	if err := m.before(Op{Kind: OpList, Name: dir}); err != nil {
		return nil, pathError(OpList, dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError(OpList, dir, err)
	}
	return slices.Sorted(maps.Keys(n.names)), nil
}

// Stat describes a file or folder.
func (m *Mem) Stat(name string) (Info, error) {
	if err := m.before(Op{Kind: OpStat, Name: name}); err != nil {
		return Info{}, pathError(OpStat, name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return Info{}, pathError(OpStat, name, err)
	}
	return Info{Size: n.now.size, IsDir: n.isDir(), ModTime: n.modified}, nil
}

// SyncDir makes the names in a folder safe, and what they depend on elsewhere. A move
// between two folders is safe when either of them is synced.
func (m *Mem) SyncDir(dir string) error {
	if err := m.before(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return pathError(OpSyncDir, dir, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(dir)
	if err != nil {
		return pathError(OpSyncDir, dir, err)
	}
	keep := make([]bool, len(m.moves))
	for i := range m.moves {
		keep[i] = m.moves[i].dirs[0] == n || m.moves[i].dirs[1] == n
	}
	withCauses(m.moves, keep)
	var rest []move
	for i, mv := range m.moves {
		if keep[i] {
			mv.makeSafe()
		} else {
			rest = append(rest, mv)
		}
	}
	m.moves = rest
	return nil
}

type memLock struct {
	m    *Mem
	name string
}

// Close gives the lock back.
func (l memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if !l.m.locks[l.name] {
		return pathError(OpLock, l.name, fs.ErrClosed)
	}
	delete(l.m.locks, l.name)
	return nil
}

// Lock takes an exclusive lock. A clone of a crash holds none.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if err := m.before(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, pathError(OpLock, name, err)
	}
	f, err := m.OpenReadWrite(name)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	clean := filepath.Clean(name)
	if m.locks[clean] {
		return nil, pathError(OpLock, name, ErrLocked)
	}
	m.locks[clean] = true
	return memLock{m: m, name: clean}, nil
}

// DiskUsage tells capacity and use, or what SetUsage's function says. An
// endless disk shows 1 TiB.
func (m *Mem) DiskUsage(dir string) (Usage, error) {
	if err := m.before(Op{Kind: OpUsage, Name: dir}); err != nil {
		return Usage{}, pathError(OpUsage, dir, err)
	}
	m.mu.Lock()
	usage, total, used := m.usage, m.capacity, m.used
	m.mu.Unlock()
	if usage != nil {
		return usage()
	}
	if total == 0 {
		total = 1 << 40
	}
	return Usage{Total: uint64(total), Free: uint64(max(total-used, 0))}, nil
}

// TryDirect is without an error, and without a trial, unless SetNoDirect said one.
func (m *Mem) TryDirect(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noDirect
}

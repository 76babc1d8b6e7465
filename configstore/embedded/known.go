package embedded

import (
	"io/fs"
	"os"
	"sync"

	"github.com/rhumbmq/rhumb/configstore"
)

// known remembers the files of the last list and what they held, so that the next one
// reads only those that changed. A put replaces a file by another one, and a look at
// each file's number, size and time is a small part of what reading and checking it
// costs. The zero value is ready.
type known struct {
	mu    sync.Mutex
	files map[string]knownFile // by path; replaced, never changed
}

type knownFile struct {
	info fs.FileInfo
	doc  configstore.Document
}

// listing is one list under way.
type listing struct{ old, now map[string]knownFile }

// next begins a list.
func (k *known) next() *listing {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &listing{old: k.files, now: make(map[string]knownFile, len(k.files))}
}

// keep remembers a list that was finished.
func (k *known) keep(l *listing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files = l.now
}

// read gives the document of a file that stands in a directory as e.
func (l *listing) read(path string, e fs.DirEntry) (configstore.Document, error) {
	info, err := e.Info()
	if err != nil {
		return readFile(path) // says what is wrong
	}
	f, ok := l.old[path]
	if !ok || !sameFile(f.info, info) {
		d, err := readFile(path)
		if err != nil {
			return d, err
		}
		f = knownFile{info, d}
	}
	l.now[path] = f
	return f.doc, nil
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

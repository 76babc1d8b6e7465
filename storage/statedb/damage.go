package statedb

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// plain turns damage that Pebble met into an error of kind corrupt that names the
// file, in one line. Pebble's own shows keys, which are binary, and spans lines.
func plain(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) {
		return err
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return damaged(*info)
	}
	return corruptf("%s", line(err))
}

func damaged(info pebble.DataCorruptionInfo) error {
	return corruptf("%s is damaged: %s", info.Path, line(info.Details))
}

// line is the first line of an error's text: the others of Pebble's repeat it.
func line(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

// Damage is a file of the database that is not as it was written.
type Damage struct {
	File string // within the database's directory
	What string
}

// Check reads every block of every table of the database, whatever it holds, and gives
// what is damaged; nothing is taken from a cache.
func (db *DB) Check() ([]Damage, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	levels, err := db.pebble.SSTables()
	if err != nil {
		return nil, plain(err)
	}
	opts := &pebble.Options{}
	opts.EnsureDefaults()
	var found []Damage
	seen := map[string]bool{} // tables that share a file
	for _, level := range levels {
		for _, table := range level {
			name := fmt.Sprintf("%s.sst", table.BackingSSTNum)
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := db.checkTable(name, opts.MakeReaderOptions()); err != nil {
				found = append(found, Damage{File: name, What: line(err)})
			}
		}
	}
	return found, nil
}

func (db *DB) checkTable(name string, opts sstable.ReaderOptions) error {
	path := filepath.Join(db.dir, name)
	f, err := db.fs.fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(&file{fs: db.fs, f: f, name: path})
	if err != nil {
		_ = f.Close()
		return err
	}
	r, err := sstable.NewReader(context.Background(), readable, opts)
	if err != nil {
		_ = readable.Close()
		return err
	}
	err = r.ValidateBlockChecksums()
	if closing := r.Close(); err == nil {
		err = closing
	}
	return err
}

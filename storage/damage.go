package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"
	"syscall"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

// maxDamaged bounds how many damaged files are remembered.
const maxDamaged = 64

// Damage tells of a file of which a batch could not be read: the disk does not give
// back what was written. Batches around it can be read.
type Damage struct {
	File      string // as it is named in the data directory
	Shard     rhumb.ShardID
	Partition rhumb.PartitionID
	Offset    rhumb.Offset // of the first batch that was seen to be bad
	Last      rhumb.Offset // of its last record
	Err       error
}

// damageSet remembers what could not be read, the first of each file.
type damageSet struct {
	mu    sync.Mutex
	files map[uint64]Damage
}

// noteDamage takes note of why refs could not be read beyond the first n, if it is that
// a file is not as it was written. It gives the error for the reader: of kind corrupt
// then, also where the file ends too early or the disk does not give it back.
func (s *Store) noteDamage(shard rhumb.ShardID, p rhumb.PartitionID, refs []index.Ref, n int, err error) error {
	lost := rhumb.KindOf(err) == rhumb.KindCorrupt || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO)
	if !lost || n >= len(refs) || refs[n].File == 0 {
		return err
	}
	if rhumb.KindOf(err) != rhumb.KindCorrupt {
		err = rhumb.Errorf(rhumb.KindCorrupt, "%w", err)
	}
	file := refs[n].File
	name := path.Join(logDir, fmt.Sprintf("%016x.log", file))
	if isSegment(file) {
		name = path.Join(segmentDir, segmentName(file))
	}
	d := Damage{File: name, Shard: shard, Partition: p, Offset: refs[n].Base, Last: refs[n].Last(), Err: err}
	if s.damage.add(file, d) && s.cfg.Events.Damaged != nil {
		s.cfg.Events.Damaged(d)
	}
	return err
}

// add tells if the file was not known to be damaged.
func (d *damageSet) add(file uint64, found Damage) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.files[file]; known || len(d.files) >= maxDamaged {
		return false
	}
	if d.files == nil {
		d.files = map[uint64]Damage{}
	}
	d.files[file] = found
	return true
}

// forget drops a file that is gone.
func (d *damageSet) forget(file uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, file)
}

// list gives the damaged files in the order of their names.
func (d *damageSet) list() []Damage {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Damage
	for _, found := range d.files {
		out = append(out, found)
	}
	slices.SortFunc(out, func(a, b Damage) int { return cmp.Compare(a.File, b.File) })
	return out
}

// forget drops what is known of the bytes of a file that is gone.
func (s *Store) forget(file uint64) {
	s.checked.forget(file)
	s.damage.forget(file)
	if s.blocks != nil {
		s.blocks.Forget(file)
	}
}

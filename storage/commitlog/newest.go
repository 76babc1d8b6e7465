package commitlog

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	newestName     = "NEWEST"
	newestMagic    = "RHUMBNEW"
	newestVersion  = 1
	newestSize     = 40
	newestSlot     = 512
	newestSlots    = 2
	newestRequired = uint16(0xff00) // flags that a reader must know
)

// newestRecord is what the file NEWEST says: names that are there until it says
// otherwise.
type newestRecord struct {
	seq    uint64 // grows with each write; 0: there is no record
	newest uint64 // the file that was made last, begun or not
	begun  uint64 // the file that was being written then; 0 if none was
}

func (r *newestRecord) put(b []byte) {
	le := binary.LittleEndian
	copy(b, newestMagic)
	le.PutUint16(b[8:], newestVersion)
	le.PutUint16(b[10:], 0)
	le.PutUint64(b[16:], r.seq)
	le.PutUint64(b[24:], r.newest)
	le.PutUint64(b[32:], r.begun)
	le.PutUint32(b[12:], newestSum(b))
}

// newestSum is the checksum of a slot, with its own field as 0.
func newestSum(b []byte) uint32 {
	crc := codec.ChecksumUpdate(codec.Checksum(b[:12]), make([]byte, 4))
	return codec.ChecksumUpdate(crc, b[16:newestSize])
}

// parseNewest reads a slot; ok is false if it holds no record, or a torn one.
func parseNewest(b []byte) (r newestRecord, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < newestSize || string(b[:8]) != newestMagic || newestSum(b) != le.Uint32(b[12:]) {
		return r, false, nil
	}
	if flags := le.Uint16(b[10:]); flags&newestRequired != 0 {
		return r, false, rhumb.Errorf(rhumb.KindUnsupported, "commitlog: %s of version %d, flags %#x needs a newer reader",
			newestName, le.Uint16(b[8:]), flags)
	}
	r = newestRecord{seq: le.Uint64(b[16:]), newest: le.Uint64(b[24:]), begun: le.Uint64(b[32:])}
	return r, r.seq > 0, nil
}

// readNewest gives the last record, the zero one if there is none, as in a log of
// an older version.
func readNewest(fsys vfs.FS, dir string) (r newestRecord, err error) {
	f, err := fsys.Open(filepath.Join(dir, newestName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	for i := range newestSlots {
		var b [newestSize]byte
		if n, err := f.ReadAt(b[:], int64(i)*newestSlot); n < len(b) && err != io.EOF {
			return r, err
		}
		slot, ok, err := parseNewest(b[:])
		if err != nil {
			return r, err
		}
		if ok && slot.seq > r.seq {
			r = slot
		}
	}
	return r, nil
}

// lost gives the files that the record names and that were taken away. A file goes
// by itself only when a later one was begun and flushed, or after the record was
// changed.
func (r *newestRecord) lost(heads []*head) (ids []uint64) {
	named, started := map[uint64]bool{}, uint64(0)
	for _, h := range heads {
		named[h.name] = true
		if h.started {
			started = max(started, h.name)
		}
	}
	for _, id := range slices.Compact([]uint64{r.begun, r.newest}) {
		if id > 0 && !named[id] && started <= id {
			ids = append(ids, id)
		}
	}
	return ids
}

// checkNewest refuses a log whose last file was taken away: no other file names that.
func (l *Log) checkNewest(heads []*head) (err error) {
	if l.newest, err = readNewest(l.cfg.FS, l.cfg.Dir); err != nil {
		return err
	}
	if l.cfg.KeepsNewest && l.newest.missing(heads) {
		return rhumb.Errorf(rhumb.KindCorrupt, "commitlog: %s is missing or damaged, which names the newest files of the log: that its end was lost would not be noticed",
			filepath.Join(l.cfg.Dir, newestName))
	}
	var names []string
	for _, id := range l.newest.lost(heads) {
		names = append(names, l.files.path(id))
	}
	if len(names) == 0 {
		return nil
	}
	text := "commitlog: missing " + strings.Join(names, ", ")
	for _, h := range heads {
		if !h.started && h.name > l.newest.begun { // then those before it may be gone with right
			text += ", unless " + h.path + " lost its beginning"
		}
	}
	return rhumb.Errorf(rhumb.KindCorrupt, "%s: the end of the log would be lost", text)
}

// setNewest says which files are there from now on: newest, and begun, which is
// written to or the last that was. It is safe when it returns. The slots take turns,
// so that a torn write leaves the record before it.
//
// What Open read counts for nothing here: who wrote it may have ended before its flush.
func (l *Log) setNewest(newest, begun uint64) error {
	r := newestRecord{seq: l.newest.seq + 1, newest: newest, begun: begun}
	if same := r; l.newestSafe {
		if same.seq = l.newest.seq; same == l.newest {
			return nil
		}
	}
	f, err := l.cfg.FS.OpenReadWrite(filepath.Join(l.cfg.Dir, newestName))
	if err != nil {
		return err
	}
	var b [newestSlot]byte
	r.put(b[:])
	_, err = f.WriteAt(b[:], int64(r.seq%newestSlots)*newestSlot)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil && !l.newestSafe {
		err = l.cfg.FS.SyncDir(filepath.Clean(l.cfg.Dir)) // its name may be new
	}
	if err == nil {
		l.newest, l.newestSafe = r, true
	}
	return err
}

// missing reports whether there is no record beside files that were begun: each of
// them was named by one, which was flushed, before its first byte was written.
func (r *newestRecord) missing(heads []*head) bool {
	return r.seq == 0 && slices.ContainsFunc(heads, func(h *head) bool { return h.started })
}

// LostNewest gives the ids of the log's newest files that were taken away, and
// whether the file is missing, or damaged, that names them. It is for tools and
// changes nothing; [Open] refuses such a log.
func LostNewest(fsys vfs.FS, dir string) (ids []uint64, missing bool, err error) {
	r, err := readNewest(fsys, dir)
	if err != nil {
		return nil, false, err
	}
	l := &Log{cfg: Config{FS: fsys, Dir: dir}}
	heads, _, err := l.readHeads()
	if err != nil {
		return nil, false, err
	}
	return r.lost(heads), r.missing(heads), nil
}

// RenewNewest makes the file NEWEST anew, out of the files that are there, and gives
// the id of the newest that was begun. Whoever calls it vouches that this is the
// newest that ever was: the log will go on behind it. The log must not be open.
func RenewNewest(fsys vfs.FS, dir string) (newest uint64, err error) {
	l := &Log{cfg: Config{FS: fsys, Dir: dir}}
	heads, _, err := l.readHeads()
	if err != nil {
		return 0, err
	}
	if l.newest, err = readNewest(fsys, dir); err != nil {
		return 0, err
	}
	if !l.newest.missing(heads) {
		return 0, rhumb.Errorf(rhumb.KindInvalid, "commitlog: %s is there, or there is no file that it could name: nothing is to be done", filepath.Join(dir, newestName))
	}
	for _, h := range heads {
		if h.started {
			newest = max(newest, h.name)
		}
	}
	return newest, l.setNewest(newest, newest)
}

package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

const (
	formatName  = "FORMAT"
	formatMagic = "RHUMBFMT"
	formatSize  = 64
	// formatVersion is the newest that this version writes and reads. A directory
	// begins as firstFormat, which version 1 reads, and is raised when it gets what
	// older readers do not know.
	formatVersion = 3
	firstFormat   = 1
	segmentFormat = 2 // segments, and partitions that lie in them
	// newestFormat is of a writer that keeps log/NEWEST, which older readers leave alone
	// and do not need: where it is the version, that file must be there.
	newestFormat  = 3
	maxFormatSize = 4096
)

// format is the content of the FORMAT file.
type format struct {
	version   uint16 // of the writer
	minReader uint16 // smallest version that may open the directory
	data      rhumb.UUID
	mesh      rhumb.UUID
	shards    uint32
}

func (f *format) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, formatSize)
	copy(b, formatMagic)
	le.PutUint16(b[8:], f.version)
	le.PutUint16(b[10:], f.minReader)
	le.PutUint16(b[12:], formatSize)
	copy(b[16:], f.data[:])
	copy(b[32:], f.mesh[:])
	le.PutUint32(b[48:], f.shards)
	le.PutUint32(b[60:], codec.Checksum(b[:60]))
	return b
}

// parseFormat reads a FORMAT file, which is all of b. A minimum reader above this
// version is of kind unsupported, even if the rest is not understood.
func parseFormat(b []byte) (f format, err error) {
	le := binary.LittleEndian
	if len(b) < formatSize || len(b) > maxFormatSize || string(b[:8]) != formatMagic {
		return f, rhumb.Errorf(rhumb.KindCorrupt, "storage: FORMAT: not a format file (%d bytes)", len(b))
	}
	f.version, f.minReader = le.Uint16(b[8:]), le.Uint16(b[10:])
	if f.minReader > formatVersion {
		return f, rhumb.Errorf(rhumb.KindUnsupported,
			"storage: FORMAT: version %d needs a reader of version %d, this is version %d", f.version, f.minReader, formatVersion)
	}
	copy(f.data[:], b[16:])
	copy(f.mesh[:], b[32:])
	f.shards = le.Uint32(b[48:])
	switch {
	case codec.Checksum(b[:60]) != le.Uint32(b[60:]):
		return f, rhumb.Errorf(rhumb.KindCorrupt, "storage: FORMAT: CRC does not match")
	case f.shards == 0 || f.shards > maxShards:
		return f, rhumb.Errorf(rhumb.KindCorrupt, "storage: FORMAT: %d shards", f.shards)
	}
	return f, nil
}

// KeepsNewest reports whether log/NEWEST must be there, if the log has frames.
func (f *FormatInfo) KeepsNewest() bool { return f.Version >= newestFormat }

// FormatInfo is what a data directory's FORMAT file says.
type FormatInfo struct {
	Version, MinReader uint16
	Data, Mesh         rhumb.UUID
	Shards             int // data shards
}

// ReadFormat reads the FORMAT file of a data directory, for tools. It takes no lock
// and changes nothing.
func ReadFormat(fsys vfs.FS, dir string) (FormatInfo, error) {
	b, err := readFile(fsys, filepath.Join(dir, formatName), maxFormatSize)
	if err != nil {
		return FormatInfo{}, err
	}
	f, err := parseFormat(b)
	return FormatInfo{f.version, f.minReader, f.data, f.mesh, int(f.shards)}, err
}

// openFormat reads the FORMAT file, or makes it in a new directory.
func openFormat(cfg *Config) (format, error) {
	b, err := readFile(cfg.FS, filepath.Join(cfg.Dir, formatName), maxFormatSize)
	if errors.Is(err, fs.ErrNotExist) {
		return newFormat(cfg)
	}
	if err != nil {
		return format{}, fmt.Errorf("storage: FORMAT: %w", err)
	}
	f, err := parseFormat(b)
	switch {
	case err != nil:
		return f, err
	case !cfg.Mesh.IsZero() && cfg.Mesh != f.mesh:
		return f, rhumb.Errorf(rhumb.KindForbidden, "storage: data directory belongs to mesh %v, not to %v", f.mesh, cfg.Mesh)
	case cfg.Shards != 0 && cfg.Shards != int(f.shards):
		return f, rhumb.Errorf(rhumb.KindInvalid, "storage: data directory has %d shards, not %d", f.shards, cfg.Shards)
	}
	return f, nil
}

// newFormat makes the FORMAT file. A directory that has data but no FORMAT is
// refused: it is not ours, or it lost the file that says how to read it.
func newFormat(cfg *Config) (format, error) {
	for _, name := range []string{logDir, stateDir} {
		if _, err := cfg.FS.Stat(filepath.Join(cfg.Dir, name)); err == nil {
			return format{}, rhumb.Errorf(rhumb.KindCorrupt, "storage: %s has a folder %s but no FORMAT file", cfg.Dir, name)
		}
	}
	f := format{version: formatVersion, minReader: firstFormat, data: rhumb.NewUUID(), mesh: cfg.Mesh, shards: uint32(cfg.Shards)}
	if f.shards == 0 {
		f.shards = defaultShards
	}
	return f, writeFile(cfg.FS, cfg.Dir, formatName, f.encode())
}

// raiseFormat makes the directory one that readers of lower versions refuse, before
// it gets what they do not know.
func (s *Store) raiseFormat(version uint16) error {
	if s.format.minReader >= version {
		return nil
	}
	f := s.format
	f.version, f.minReader = max(f.version, version), version
	return s.replaceFormat(f)
}

// noteWriter notes that this version has written to the directory, which older
// readers may go on to read.
func (s *Store) noteWriter() error {
	if s.format.version >= formatVersion {
		return nil
	}
	f := s.format
	f.version = formatVersion
	return s.replaceFormat(f)
}

func (s *Store) replaceFormat(f format) error {
	if err := writeFile(s.cfg.FS, s.cfg.Dir, formatName, f.encode()); err != nil {
		return err
	}
	s.format = f
	return nil
}

// writeFile puts a small file in place in one step, safe when it returns.
func writeFile(fsys vfs.FS, dir, name string, b []byte) error {
	tmp := filepath.Join(dir, name+tmpSuffix)
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(tmp, filepath.Join(dir, name))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return err
}

// readFile reads a whole file of at most limit bytes.
func readFile(fsys vfs.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "storage: %s has %d bytes, at most %d are expected", name, size, limit)
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if n == len(b) {
		err = nil
	}
	return b, err
}

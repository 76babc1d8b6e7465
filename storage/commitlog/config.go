package commitlog

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/rhumbmq/rhumb/storage/vfs"
)

// Durability says what an Append waits for.
type Durability uint8

// The durabilities.
const (
	// Fsync: done is called when the frame is on disk.
	Fsync Durability = iota
	// Interval: done is called when the frame is written; what is written is flushed
	// at most FlushInterval later.
	Interval
	// None: as Interval, but only frames that have a Flushed callback start the
	// interval; others wait for the end of the file, Flush or the end of Run.
	None
)

var durabilityNames = [...]string{"fsync", "interval", "none"}

// String gives the word of the configuration.
func (d Durability) String() string {
	if int(d) < len(durabilityNames) {
		return durabilityNames[d]
	}
	return fmt.Sprintf("durability-%d", uint8(d))
}

// ParseDurability reads fsync, interval or none.
func ParseDurability(s string) (Durability, error) {
	for i, name := range durabilityNames {
		if s == name {
			return Durability(i), nil
		}
	}
	return 0, fmt.Errorf("commitlog: durability %q must be fsync, interval or none", s)
}

// Config sets up a log.
type Config struct {
	FS  vfs.FS
	Dir string // folder of the files, made if absent; nothing else may live there
	// FileSize is where a file ends, in bytes; a larger frame gets a file of its own.
	// Default 64 MiB, at least 64 KiB.
	FileSize int64
	// Durability: see its values. Default Fsync.
	Durability Durability
	// FlushInterval is for Interval and None. Default 50 ms.
	FlushInterval time.Duration
	// Direct lets large rounds pass the system's page cache by (see [vfs.File]). Writing
	// takes less of the processor; what is read from files comes from the disk.
	Direct bool
	// MaxSpares is how many removed files are kept to be used again. Default 2.
	MaxSpares int
	// MaxOpen bounds the descriptors that are kept open for reading: with Direct a file
	// that is read takes two, one that is written one more. Default 256.
	MaxOpen int
	// KeepsNewest says that the log was opened before by a version that keeps the file
	// NEWEST: a log with frames and without it has lost it, and is refused.
	KeepsNewest bool

	newSalt func() salt // tests fix it
}

// maxFiles is how many files may be open for reading.
func (c *Config) maxFiles() int {
	if c.Direct {
		return max(1, c.MaxOpen/2)
	}
	return c.MaxOpen
}

func (c *Config) setDefaults() error {
	if c.FS == nil || c.Dir == "" {
		return fmt.Errorf("commitlog: config needs FS and Dir")
	}
	if c.FileSize == 0 {
		c.FileSize = 64 << 20
	}
	if c.FileSize < 64<<10 || c.FileSize > 1<<40 {
		return fmt.Errorf("commitlog: file size %d must be 64 KiB to 1 TiB", c.FileSize)
	}
	if int(c.Durability) >= len(durabilityNames) {
		return fmt.Errorf("commitlog: unknown %v", c.Durability)
	}
	if c.FlushInterval <= 0 {
		c.FlushInterval = 50 * time.Millisecond
	}
	if c.MaxSpares == 0 {
		c.MaxSpares = 2
	}
	if c.MaxOpen <= 0 {
		c.MaxOpen = 256
	}
	if c.newSalt == nil {
		c.newSalt = func() (s salt) {
			rand.Read(s[:]) // never fails: crypto/rand aborts the process instead
			return s
		}
	}
	return nil
}

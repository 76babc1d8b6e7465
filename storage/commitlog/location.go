package commitlog

import "fmt"

// Location is the place of an entry's data in the log.
type Location struct {
	File uint64
	Pos  int64
	Len  uint32
}

// Mark is a position in the log: everything before it.
type Mark struct {
	File uint64
	Pos  int64
}

// Less orders marks.
func (m Mark) Less(o Mark) bool {
	if m.File != o.File {
		return m.File < o.File
	}
	return m.Pos < o.Pos
}

// String gives file:position, the file as in its name.
func (m Mark) String() string { return fmt.Sprintf("%016x:%d", m.File, m.Pos) }

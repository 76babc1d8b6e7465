package wire

import "encoding/binary"

// MaxSightings bounds the entries of one [Seen].
const MaxSightings = 16

// maxKey bounds the key of a document.
const maxKey = 512

// Seen tells the peer what its sender has seen of the mesh's documents and does not find
// in its configuration store: all of it, each time that it changes, and once at the start.
// The zero value says that the sender follows the store. Older versions skip it.
type Seen struct {
	Since   int64  // since when the sender does not follow the store, ms since 1970; 0: it does
	Changes uint64 // sum of the versions of all documents that it has seen
	List    []Sighting
}

// Sighting is a version of a document.
type Sighting struct {
	Key     string
	Version uint64
	Sum     [16]byte // begins the SHA-256 of its canonical content
}

// Type says what the frame is.
func (*Seen) Type() Type { return TypeSeen }

func (f *Seen) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint64(dst, uint64(f.Since))
	dst = le.AppendUint64(dst, f.Changes)
	return le.AppendUint16(dst, uint16(min(len(f.List), MaxSightings)))
}

func (f *Seen) variable(dst []byte) []byte {
	for _, s := range f.List[:min(len(f.List), MaxSightings)] {
		dst = appendText(dst, s.Key, maxKey)
		dst = binary.LittleEndian.AppendUint64(dst, s.Version)
		dst = append(dst, s.Sum[:]...)
	}
	return dst
}

func (f *Seen) decode(fixed, variable *cursor) {
	f.Since = fixed.i64()
	f.Changes = fixed.u64()
	n := int(fixed.u16())
	if n > MaxSightings {
		fixed.fail("names too many documents")
		return
	}
	for ; n > 0 && variable.wrong == ""; n-- {
		s := Sighting{Key: variable.text(maxKey), Version: variable.u64(), Sum: variable.id()}
		if s.Key == "" || s.Version == 0 {
			variable.fail("names no document, or no version of one")
			return
		}
		f.List = append(f.List, s)
	}
}

package wire

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// MaxPauses bounds the entries of one [Pauses].
const MaxPauses = 1024

// maxBy bounds the name of who did something.
const maxBy = 128

// Pauses tells the peer which edges to it its sender has paused: all of them, each
// time that they change. Older versions skip it.
type Pauses struct{ List []Pause }

// Pause is one of them.
type Pause struct {
	Space rhumb.Space // zero: every namespace
	At    int64       // ms since 1970
	By    string      // at most 128 bytes
}

// Type says what the frame is.
func (*Pauses) Type() Type { return TypePauses }

func (f *Pauses) fixed(dst []byte) []byte {
	return binary.LittleEndian.AppendUint16(dst, uint16(min(len(f.List), MaxPauses)))
}

func (f *Pauses) variable(dst []byte) []byte {
	for _, p := range f.List[:min(len(f.List), MaxPauses)] {
		dst = appendText(dst, string(p.Space.Tenant), 64)
		dst = appendText(dst, string(p.Space.Namespace), 64)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.At))
		dst = appendText(dst, p.By, maxBy)
	}
	return dst
}

func (f *Pauses) decode(fixed, variable *cursor) {
	n := int(fixed.u16())
	if n > MaxPauses {
		fixed.fail("holds too many pauses")
		return
	}
	for ; n > 0 && variable.wrong == ""; n-- {
		p := Pause{Space: rhumb.Space{Tenant: rhumb.Tenant(variable.text(64)), Namespace: rhumb.Namespace(variable.text(64))}}
		p.At, p.By = variable.i64(), variable.text(maxBy)
		if !p.Space.IsZero() && p.Space.Validate() != nil {
			variable.fail("pauses no legal namespace")
			return
		}
		f.List = append(f.List, p)
	}
}

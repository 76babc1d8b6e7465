package wire

import (
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// The versions of the link protocol that this program speaks.
const (
	MinVersion uint16 = 1
	MaxVersion uint16 = 1
)

const helloMagic = 0x4c424d52 // "RMBL" in the order of the wire

// Hello is the first frame that each side sends on the control stream.
type Hello struct {
	MinVersion, MaxVersion uint16
	Number                 rhumb.RegionNumber
	Name                   rhumb.RegionName
	Mesh                   rhumb.UUID
	Data                   rhumb.UUID // of the region's data directory
	Optional               uint64     // features that the side can use
	Required               uint64     // features that it cannot do without
	Clock                  int64      // wall clock, µs since 1970
	// Boot is random per process, so that two processes that say they are the
	// same region can be told apart. Zero from a version that has none.
	Boot rhumb.UUID
	// Software is the version of the peer's program, for people; at most 64 bytes.
	Software string
	// Pool names this connection, so that others can join it: see [Join]. That of the
	// side that dialled counts. Connections is how many the side takes for one link,
	// this one included. Zero from a version that takes one; written with Boot only.
	Pool        rhumb.UUID
	Connections uint16
}

// Type says what the frame is.
func (*Hello) Type() Type { return TypeHello }

func (f *Hello) fixed(dst []byte) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, helloMagic)
	dst = le.AppendUint16(dst, f.MinVersion)
	dst = le.AppendUint16(dst, f.MaxVersion)
	dst = le.AppendUint16(dst, uint16(f.Number))
	dst = le.AppendUint16(dst, 0)
	dst = append(dst, f.Mesh[:]...)
	dst = append(dst, f.Data[:]...)
	dst = le.AppendUint64(dst, f.Optional)
	dst = le.AppendUint64(dst, f.Required)
	dst = le.AppendUint64(dst, uint64(f.Clock))
	if f.Boot.IsZero() {
		return dst
	}
	dst = append(dst, f.Boot[:]...)
	if f.Connections == 0 {
		return dst
	}
	dst = append(dst, f.Pool[:]...)
	return le.AppendUint16(dst, f.Connections)
}

func (f *Hello) variable(dst []byte) []byte {
	dst = appendText(dst, string(f.Name), 32)
	if f.Software == "" {
		return dst
	}
	return appendText(dst, f.Software, maxSoftware)
}

const maxSoftware = 64

func (f *Hello) decode(fixed, variable *cursor) {
	if fixed.u32() != helloMagic {
		fixed.fail("has another magic: the peer speaks another protocol")
	}
	f.MinVersion, f.MaxVersion = fixed.u16(), fixed.u16()
	f.Number = rhumb.RegionNumber(fixed.u16())
	fixed.u16()
	f.Mesh, f.Data = fixed.id(), fixed.id()
	f.Optional, f.Required = fixed.u64(), fixed.u64()
	f.Clock = fixed.i64()
	if len(fixed.b) >= len(f.Boot) { // an older version ends before it
		f.Boot = fixed.id()
	}
	if len(fixed.b) >= len(f.Pool)+2 && !f.Boot.IsZero() { // as above
		pool := fixed.id()
		if f.Connections = fixed.u16(); f.Connections > 0 {
			f.Pool = pool
		}
	}
	f.Name = rhumb.RegionName(variable.text(32))
	if len(variable.b) > 0 { // an older version ends before it
		f.Software = variable.text(maxSoftware)
	}
}

// Agreement is what both sides of a link may use.
type Agreement struct {
	Version  uint16
	Features uint64
}

// Agree compares the hello of this side with that of the peer. Both sides come
// to the same agreement. Errors name what does not fit: kind forbidden for a
// peer that must not be linked, unsupported for one that cannot be.
func Agree(ours, theirs *Hello) (Agreement, error) {
	a := Agreement{
		Version:  min(ours.MaxVersion, theirs.MaxVersion),
		Features: (ours.Optional | ours.Required) & (theirs.Optional | theirs.Required),
	}
	if err := theirs.Name.Validate(); err != nil {
		return Agreement{}, err
	}
	if err := theirs.Number.Validate(); err != nil {
		return Agreement{}, err
	}
	switch {
	case theirs.Mesh != ours.Mesh:
		return Agreement{}, rhumb.Errorf(rhumb.KindForbidden, "region %s belongs to mesh %s, this is mesh %s", theirs.Name, theirs.Mesh, ours.Mesh)
	case theirs.Data == ours.Data:
		return Agreement{}, rhumb.Errorf(rhumb.KindForbidden, "region %s has the data directory of this region: a link to itself", theirs.Name)
	case theirs.Name == ours.Name || theirs.Number == ours.Number:
		return Agreement{}, rhumb.Errorf(rhumb.KindForbidden, "peer is region %s with number %d, this is %s with number %d",
			theirs.Name, theirs.Number, ours.Name, ours.Number)
	case a.Version < ours.MinVersion || a.Version < theirs.MinVersion:
		return Agreement{}, rhumb.Errorf(rhumb.KindUnsupported, "region %s speaks link versions %d to %d, this one %d to %d",
			theirs.Name, theirs.MinVersion, theirs.MaxVersion, ours.MinVersion, ours.MaxVersion)
	case theirs.Required&^a.Features != 0:
		return Agreement{}, rhumb.Errorf(rhumb.KindUnsupported, "region %s requires features %#x", theirs.Name, theirs.Required&^a.Features)
	case ours.Required&^a.Features != 0:
		return Agreement{}, rhumb.Errorf(rhumb.KindUnsupported, "region %s lacks features %#x", theirs.Name, ours.Required&^a.Features)
	}
	return a, nil
}

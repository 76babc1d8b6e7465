package configstore

import "github.com/rhumbmq/rhumb/internal/rhumb"

// Mesh is the document of the mesh itself. It is made once.
type Mesh struct {
	Meta
	// UUID tells this mesh from every other. It never changes.
	UUID rhumb.UUID `json:"uuid"`
	// LastNumber is the highest region number that was ever given, also to
	// regions that are gone. It only grows: numbers are taken by raising it.
	LastNumber rhumb.RegionNumber `json:"last_region_number"`
	// Secret is random and known to the mesh's regions alone. From it follows what
	// strangers are shown of users who do not exist, so that all regions show the
	// same. Empty in a mesh that was made before there were users.
	Secret []byte `json:"secret,omitzero"`
}

// secretSize is the length of a mesh's secret in bytes.
const secretSize = 32

func (m *Mesh) validate(old *Mesh) error {
	switch {
	case m.UUID.IsZero():
		return invalid("uuid", "must be set")
	case m.Deleted:
		return invalid("deleted", "a mesh is never deleted")
	case m.LastNumber > rhumb.MaxRegionNumber:
		return invalid("last_region_number", "%d is above %d", m.LastNumber, rhumb.MaxRegionNumber)
	case len(m.Secret) > 0 && len(m.Secret) != secretSize:
		return invalid("secret", "has %d bytes, not %d", len(m.Secret), secretSize)
	case old == nil:
		return nil
	case m.UUID != old.UUID:
		return invalid("uuid", "never changes: it is %s, not %s", old.UUID, m.UUID)
	case m.LastNumber < old.LastNumber:
		return invalid("last_region_number", "only grows: it is %d, not %d", old.LastNumber, m.LastNumber)
	}
	return nil
}

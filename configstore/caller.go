package configstore

import (
	"context"
	"strings"
)

// Caller is on whose behalf a version of a document was written, such as the name of the
// token that the HTTP API was called with.
type Caller struct {
	Name string `json:"name"`
	// Version is the one of the document that this holds for. An older binary keeps fields
	// that it does not know when it writes the next one, which is not this caller's.
	Version uint64 `json:"version"`
}

// maxCallerBytes bounds a caller's name in a document.
const maxCallerBytes = 256

type callerKey struct{}

// WithCaller has what a [Writer] stores under a context say on whose behalf.
func WithCaller(ctx context.Context, name string) context.Context {
	if len(name) > maxCallerBytes {
		name = name[:maxCallerBytes]
	}
	return context.WithValue(ctx, callerKey{}, strings.ToValidUTF8(name, "?"))
}

// callerOf gives the caller of a context, zero if it has none.
func callerOf(ctx context.Context) Caller {
	name, _ := ctx.Value(callerKey{}).(string)
	return Caller{Name: name}
}

// settleCaller forgets a caller of another version.
func (m *Meta) settleCaller() {
	if m.UpdatedCaller.Version != m.Version {
		m.UpdatedCaller = Caller{}
	}
}

// Who says for people who wrote the version: the caller, as far as it is known, and
// who wrote it for him.
func (m *Meta) Who() string {
	if m.UpdatedCaller.Name == "" {
		return m.UpdatedBy
	}
	return m.UpdatedCaller.Name + ", " + m.UpdatedBy
}

package configstore

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// MaxDocumentBytes bounds a document's JSON: Consul takes values below 512 KB.
const MaxDocumentBytes = 500 << 10

// Meta is what every document carries beside its own fields.
type Meta struct {
	// Version is 1 for the first one and grows by one with each change.
	Version uint64 `json:"version"`
	// UpdatedAt is when this version was written, by the writer's clock.
	UpdatedAt time.Time `json:"updated_at"`
	// UpdatedBy says who wrote it: a region, a user, a command.
	UpdatedBy string `json:"updated_by"`
	// UpdatedCaller is on whose behalf ([WithCaller]); zero: nobody's, or that is not known.
	UpdatedCaller Caller `json:"updated_caller,omitzero"`
	// Deleted marks a tombstone. Its other fields are those at the deletion.
	Deleted bool `json:"deleted,omitzero"`
}

// Document is one version of what a key holds. JSON is canonical (see
// [ParseDocument]) and must not be changed.
type Document struct {
	Key string
	Meta
	JSON []byte
}

// Hash is a document's content hash: SHA-256 of its canonical JSON.
type Hash [sha256.Size]byte

// String gives the first 16 hexadecimal digits, enough to tell two apart.
func (h Hash) String() string { return hex.EncodeToString(h[:8]) }

// Hash gives the content hash.
func (d Document) Hash() Hash { return sha256.Sum256(d.JSON) }

// ParseDocument reads the JSON of a key: one object of at most
// [MaxDocumentBytes], no key twice, with version, updated_at and updated_by.
// The result's JSON is canonical: keys sorted, no white space, so equal content
// has an equal [Hash] whichever backend stored it. What the fields mean is not
// checked here.
func ParseDocument(key string, data []byte) (Document, error) {
	if err := CheckKey(key); err != nil {
		return Document{}, err
	}
	o, err := parseObject(data)
	if err != nil {
		return Document{}, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: %w", key, err)
	}
	return documentOf(key, o)
}

// documentOf makes the document of a parsed object.
func documentOf(key string, o object) (Document, error) {
	d := Document{Key: key, JSON: o.canonical()}
	if len(d.JSON) > MaxDocumentBytes {
		return Document{}, rhumb.Errorf(rhumb.KindTooLarge, "configstore: document %s has %d bytes, at most %d are allowed", key, len(d.JSON), MaxDocumentBytes)
	}
	if _, err := o.into(&d.Meta, shapeOf[Meta]()); err != nil {
		return Document{}, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: %w", key, err)
	}
	d.settleCaller()
	if d.Version == 0 {
		return Document{}, rhumb.Errorf(rhumb.KindCorrupt, "configstore: document %s: field version: must be at least 1", key)
	}
	return d, nil
}

// CheckPut is what every backend asks before it stores: the document is whole,
// and its version is one above that of the stored one (0 if absent).
func CheckPut(d Document, stored uint64) error {
	p, err := ParseDocument(d.Key, d.JSON)
	if err != nil {
		return rhumb.Errorf(rhumb.KindInvalid, "put: %w", err)
	}
	if p.Version != d.Version || string(p.JSON) != string(d.JSON) {
		return rhumb.Errorf(rhumb.KindInvalid, "configstore: put %s: document was not made by ParseDocument or a Writer", d.Key)
	}
	if d.Version != stored+1 {
		return rhumb.Errorf(rhumb.KindFenced, "%w: %s is at version %d, put of version %d", ErrConflict, d.Key, stored, d.Version)
	}
	return nil
}

// NotFound makes the error of an absent document.
func NotFound(key string) error {
	return rhumb.Errorf(rhumb.KindNotFound, "%w: %s", ErrNotFound, key)
}

package configstore

import (
	"errors"
	"fmt"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// FieldError is a refusal that names the field and the reason.
type FieldError struct {
	Key    string // of the document; empty while only its fields are looked at
	Field  string // path in the document, such as topology.full-mesh[1]
	Reason string
}

// Error gives key, field and reason.
func (e *FieldError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("field %s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("configstore: document %s: field %s: %s", e.Key, e.Field, e.Reason)
}

// invalid makes a refusal that can never work.
func invalid(field, format string, args ...any) error {
	return &rhumb.Error{Kind: rhumb.KindInvalid, Err: &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}}
}

// unbuilt makes a refusal of a feature that this version lacks.
func unbuilt(field, reason string) error {
	return &rhumb.Error{Kind: rhumb.KindUnsupported, Err: &FieldError{Field: field, Reason: reason}}
}

// inDocument puts the document's key into a refusal that has none yet.
func inDocument(key string, err error) error {
	var named *FieldError
	if err == nil || errors.As(err, &named) && named.Key != "" {
		return err
	}
	kind := rhumb.KindInvalid
	var known *rhumb.Error
	if errors.As(err, &known) {
		kind = known.Kind
	}
	var fe *FieldError
	if errors.As(err, &fe) {
		return &rhumb.Error{Kind: kind, Err: &FieldError{Key: key, Field: fe.Field, Reason: fe.Reason}}
	}
	return rhumb.Errorf(kind, "configstore: document %s: %w", key, err)
}

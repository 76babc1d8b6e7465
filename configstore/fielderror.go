package configstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// FieldErrors are two or more refusals of one document or file.
type FieldErrors []FieldError

// MaxFieldErrors bounds the refusals of one file that are collected, and MaxFieldErrorsTold
// those that a person is told of at once.
const (
	MaxFieldErrors     = 500
	MaxFieldErrorsTold = 20
)

// Error gives the first ones, and how many there are beside them.
func (e FieldErrors) Error() string {
	var b strings.Builder
	for i := range e {
		if i == MaxFieldErrorsTold {
			fmt.Fprintf(&b, "; and %d more", len(e)-i)
			break
		}
		one := e[i]
		if i > 0 {
			b.WriteString("; ")
			if one.Key == e[i-1].Key {
				one.Key = ""
			}
		}
		b.WriteString(one.Error())
	}
	return b.String()
}

// Unwrap gives each of them.
func (e FieldErrors) Unwrap() []error {
	out := make([]error, 0, len(e))
	for i := range e {
		out = append(out, &e[i])
	}
	return out
}

// FieldsOf gives the fields that an error refuses; none if it is about no field.
func FieldsOf(err error) []FieldError {
	var many FieldErrors
	var one *FieldError
	switch {
	case errors.As(err, &many):
		return many
	case errors.As(err, &one):
		return []FieldError{*one}
	}
	return nil
}

// refusals collects what is refused of a document or file, so that a person is told of
// all of it at once. The zero value is ready to use.
type refusals struct {
	kind   rhumb.Kind // of the first
	fields []FieldError
	other  error // the first that is about no field: it goes before them
}

// add takes what a check gives, nil too.
func (r *refusals) add(err error) {
	if err == nil {
		return
	}
	fields := FieldsOf(err)
	switch {
	case fields == nil && r.other == nil:
		r.other = err
	case len(r.fields) == 0:
		r.kind = kindOfRefusal(err)
	}
	for _, f := range fields {
		if len(r.fields) < MaxFieldErrors {
			r.fields = append(r.fields, f)
		}
	}
}

// err gives all that was added as one error, nil if nothing was.
func (r *refusals) err() error {
	switch {
	case r.other != nil:
		return r.other
	case len(r.fields) == 0:
		return nil
	case len(r.fields) == 1:
		return &rhumb.Error{Kind: r.kind, Err: &r.fields[0]}
	}
	return &rhumb.Error{Kind: r.kind, Err: FieldErrors(r.fields)}
}

// follows reports whether a field, or one that holds it or that it holds, is refused
// already: what is wrong with it follows from that.
func (r *refusals) follows(field string) bool {
	in := func(inner, outer string) bool {
		rest, is := strings.CutPrefix(inner, outer)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return slices.ContainsFunc(r.fields, func(f FieldError) bool { return in(f.Field, field) || in(field, f.Field) })
}

// kindOfRefusal gives an error's kind, invalid if it has none.
func kindOfRefusal(err error) rhumb.Kind {
	var known *rhumb.Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return rhumb.KindInvalid
}

// eachField gives a refusal with all its fields changed by fn; ok is false if it is
// about no field.
func eachField(err error, fn func(*FieldError)) (changed error, ok bool) {
	var r refusals
	fields := slices.Clone(FieldsOf(err))
	if fields == nil {
		return err, false
	}
	for i := range fields {
		fn(&fields[i])
	}
	r.kind, r.fields = kindOfRefusal(err), fields
	return r.err(), true
}

// inDocument puts the document's key into a refusal that has none yet.
func inDocument(key string, err error) error {
	if err == nil {
		return nil
	}
	named, is := eachField(err, func(f *FieldError) { f.Key = cmp.Or(f.Key, key) })
	if is {
		return named
	}
	return rhumb.Errorf(kindOfRefusal(err), "configstore: document %s: %w", key, err)
}

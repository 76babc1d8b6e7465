package configstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"
)

// object is a parsed JSON object: values are objects, lists ([]any), strings,
// json.Number (its text is kept as written), bool and nil.
type object map[string]any

// maxDepth bounds nesting; the deepest document of ours has 4 levels.
const maxDepth = 32

var errShape = errors.New("not one JSON object")

// parseObject reads one JSON object. Stricter than encoding/json: no key twice
// (two readers could take different ones), valid UTF-8, bounded depth and size.
func parseObject(data []byte) (object, error) {
	if len(data) > 2*MaxDocumentBytes { // white space and escapes may go away
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(data), MaxDocumentBytes)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := parseValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errShape
	}
	o, ok := v.(object)
	if !ok {
		return nil, errShape
	}
	return o, nil
}

func parseValue(dec *json.Decoder, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return parseFields(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := parseValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return tok, nil
}

func parseFields(dec *json.Decoder, depth int) (any, error) {
	o := object{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := tok.(string)
		if !ok {
			return nil, errShape
		}
		if _, twice := o[key]; twice {
			return nil, fmt.Errorf("field %q stands twice", key)
		}
		if o[key], err = parseValue(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return o, err
}

// canonical gives the object's JSON with sorted keys and no white space.
func (o object) canonical() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(o); err != nil {
		panic("configstore: parsed JSON does not encode: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// shape is the set of JSON fields that a Go type knows; a field that is a struct
// has a shape of its own.
type shape map[string]shape

func shapeOf[T any]() shape { return shapeOfType(reflect.TypeFor[T]()) }

// shapeOfType reads the json tags of a struct. Types that marshal themselves
// (times, ids) are leaves.
func shapeOfType(t reflect.Type) shape {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	s := shape{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for k, v := range shapeOfType(f.Type) {
				s[k] = v
			}
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			s[name] = shapeOfType(f.Type)
		}
	}
	return s
}

// into decodes the fields that the shape knows into v and gives the paths of
// those that it does not know, sorted. null is refused, because absent, empty
// and explicit must stay three values, and so is a known field in other case.
func (o object) into(v any, s shape) (unknown []string, err error) {
	known, unknown, err := o.split(s, "")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(known.canonical(), v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return nil, &FieldError{Field: te.Field, Reason: fmt.Sprintf("a JSON %s cannot be a %s", te.Value, te.Type)}
		}
		return nil, err
	}
	sort.Strings(unknown)
	return unknown, nil
}

func (o object) split(s shape, path string) (known object, unknown []string, err error) {
	known = object{}
	for k, v := range o {
		sub, ok := s[k]
		if !ok {
			for name := range s {
				if strings.EqualFold(name, k) {
					return nil, nil, &FieldError{Field: path + k, Reason: "is written " + name}
				}
			}
			unknown = append(unknown, path+k)
			continue
		}
		if v == nil {
			return nil, nil, &FieldError{Field: path + k, Reason: "must not be null: leave it out, or give a value"}
		}
		if inner, isObject := v.(object); isObject && sub != nil {
			innerKnown, innerUnknown, err := inner.split(sub, path+k+".")
			if err != nil {
				return nil, nil, err
			}
			known[k], unknown = innerKnown, append(unknown, innerUnknown...)
			continue
		}
		known[k] = v
	}
	return known, unknown, nil
}

// merge gives what fresh says of the fields that the shape knows, and what old
// says of all others.
func merge(old, fresh object, s shape) object {
	out := object{}
	for k, v := range old {
		if _, ok := s[k]; !ok {
			out[k] = v
		}
	}
	for k, v := range fresh {
		before, wasObject := old[k].(object)
		after, isObject := v.(object)
		if s[k] != nil && wasObject && isObject {
			v = merge(before, after, s[k])
		}
		out[k] = v
	}
	return out
}

// objectOf gives the object that a struct marshals to.
func objectOf(v any) (object, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parseObject(raw)
}

package configstore

import (
	"encoding"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// shape is what a Go type knows of a JSON value: the fields of a struct, or the
// shape of each element of a list or a map whose elements are structs. nil is a
// leaf, which is known whole.
type shape struct {
	fields map[string]*shape
	each   *shape
}

func shapeOf[T any]() *shape { return shapeOfType(reflect.TypeFor[T]()) }

// shapeOfType reads the json tags of a struct. Types that marshal themselves
// (times, ids) are leaves.
func shapeOfType(t reflect.Type) *shape {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	p := reflect.PointerTo(t)
	if p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		if each := shapeOfType(t.Elem()); each != nil {
			return &shape{each: each}
		}
		return nil
	case reflect.Struct:
	default:
		return nil
	}
	s := &shape{fields: map[string]*shape{}}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			for k, v := range shapeOfType(f.Type).fields {
				s.fields[k] = v
			}
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			s.fields[name] = shapeOfType(f.Type)
		}
	}
	return s
}

// into decodes the fields that the shape knows into v and gives the paths of
// those that it does not know, sorted. null is refused, because absent, empty
// and explicit must stay three values, and so is a known field in other case.
func (o object) into(v any, s *shape) (unknown []string, err error) {
	known, unknown, err := s.split(o, "")
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(known.canonical(), v); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) && te.Field != "" {
			return nil, &FieldError{Field: te.Field, Reason: "must be " + wordFor(te.Type) + ", not " + te.Value}
		}
		return nil, err
	}
	sort.Strings(unknown)
	return unknown, nil
}

// wordFor says for people what a value of a Go type looks like in a document.
func wordFor(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map, reflect.Pointer:
		return "fields"
	}
	return "a whole number"
}

// split gives the fields of an object that a struct's shape knows, and the paths
// of the others. path is that of the object, with its dot.
func (s *shape) split(o object, path string) (known object, unknown []string, err error) {
	known = object{}
	for k, v := range o {
		sub, ok := s.fields[k]
		if !ok {
			for name := range s.fields {
				if strings.EqualFold(name, k) {
					return nil, nil, &FieldError{Field: path + k, Reason: "is written " + name}
				}
			}
			unknown = append(unknown, path+k)
			continue
		}
		inner, more, err := sub.splitValue(v, path+k)
		if err != nil {
			return nil, nil, err
		}
		known[k], unknown = inner, append(unknown, more...)
	}
	return known, unknown, nil
}

// splitValue does the same for any value; path is the value's.
func (s *shape) splitValue(v any, path string) (known any, unknown []string, err error) {
	if v == nil {
		return nil, nil, &FieldError{Field: path, Reason: "must not be null: leave it out, or give a value"}
	}
	if s == nil {
		return v, nil, nil
	}
	if _, is := v.(object); !is && s.fields != nil {
		return nil, nil, &FieldError{Field: path, Reason: "must have fields, of " + strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")}
	}
	switch v := v.(type) {
	case object:
		if s.fields != nil {
			return s.split(v, path+".")
		}
		out := object{}
		for k, e := range v {
			inner, more, err := s.each.splitValue(e, path+"."+k)
			if err != nil {
				return nil, nil, err
			}
			out[k], unknown = inner, append(unknown, more...)
		}
		return out, unknown, nil
	case []any:
		if s.each == nil {
			return v, nil, nil
		}
		out := make([]any, 0, len(v))
		for i, e := range v {
			inner, more, err := s.each.splitValue(e, path+"["+strconv.Itoa(i)+"]")
			if err != nil {
				return nil, nil, err
			}
			out, unknown = append(out, inner), append(unknown, more...)
		}
		return out, unknown, nil
	}
	return v, nil, nil
}

// merge gives what fresh says of the fields that the shape knows, and what old
// says of all others.
func merge(old, fresh object, s *shape) object {
	out := object{}
	for k, v := range old {
		if _, known := s.fields[k]; !known {
			out[k] = v
		}
	}
	for k, v := range fresh {
		out[k] = s.fields[k].mergeValue(old[k], v)
	}
	return out
}

func (s *shape) mergeValue(old, fresh any) any {
	if s == nil {
		return fresh
	}
	switch after := fresh.(type) {
	case object:
		before, _ := old.(object)
		if s.fields != nil {
			return merge(before, after, s)
		}
		out := object{}
		for k, v := range after {
			out[k] = s.each.mergeValue(before[k], v)
		}
		return out
	case []any:
		before, _ := old.([]any)
		out := make([]any, 0, len(after))
		for _, v := range after {
			out = append(out, s.each.mergeValue(s.each.sameElement(before, v), v))
		}
		return out
	}
	return fresh
}

// sameElement finds what a list had of an element before: elements are told apart
// by where they lead from and to, since lists of ours that hold objects are of edges.
func (s *shape) sameElement(list []any, element any) any {
	e, _ := element.(object)
	for _, old := range list {
		if o, ok := old.(object); ok && e != nil && o["from"] == e["from"] && o["to"] == e["to"] {
			return o
		}
	}
	return nil
}

var indexes = regexp.MustCompile(`\[\d+\]`)

// withoutIndexes gives the path of a field whichever element of a list it is in.
func withoutIndexes(path string) string { return indexes.ReplaceAllString(path, "") }

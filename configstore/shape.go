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
// and explicit must stay three values, and so is a known field in other case. What
// is refused is left out, and all of it is in the error.
func (o object) into(v any, s *shape) (unknown []string, err error) {
	var r refusals
	known, unknown := s.split(o, "", &r)
	sort.Strings(unknown)
	for _, k := range slices.Sorted(maps.Keys(known)) { // one by one: each says what is wrong with it
		err := json.Unmarshal(object{k: known[k]}.canonical(), v)
		var te *json.UnmarshalTypeError
		switch {
		case err == nil:
		case errors.As(err, &te) && te.Field != "":
			r.add(invalid(te.Field, "must be %s, not %s", wordFor(te.Type), te.Value))
		default:
			r.add(err)
		}
	}
	return unknown, r.err()
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
// of the others. path is that of the object, with its dot. What is refused goes into r.
func (s *shape) split(o object, path string, r *refusals) (known object, unknown []string) {
	known = object{}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		sub, ok := s.fields[k]
		if !ok {
			if name := s.inOtherCase(k); name != "" {
				r.add(invalid(path+k, "is written %s", name))
			} else {
				unknown = append(unknown, path+k)
			}
			continue
		}
		inner, more, ok := sub.splitValue(o[k], path+k, r)
		if ok {
			known[k] = inner
		}
		unknown = append(unknown, more...)
	}
	return known, unknown
}

func (s *shape) inOtherCase(k string) string {
	for name := range s.fields {
		if strings.EqualFold(name, k) {
			return name
		}
	}
	return ""
}

// splitValue does the same for any value; path is the value's. ok is false if it is
// refused.
func (s *shape) splitValue(v any, path string, r *refusals) (known any, unknown []string, ok bool) {
	if v == nil {
		r.add(invalid(path, "must not be null: leave it out, or give a value"))
		return nil, nil, false
	}
	if s == nil {
		return v, nil, true
	}
	if _, is := v.(object); !is && s.fields != nil {
		r.add(invalid(path, "must have fields, of %s", strings.Join(slices.Sorted(maps.Keys(s.fields)), ", ")))
		return nil, nil, false
	}
	switch v := v.(type) {
	case object:
		if s.fields != nil {
			known, unknown := s.split(v, path+".", r)
			return known, unknown, true
		}
		out := object{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			inner, more, ok := s.each.splitValue(v[k], path+"."+k, r)
			if ok {
				out[k] = inner
			}
			unknown = append(unknown, more...)
		}
		return out, unknown, true
	case []any:
		if s.each == nil {
			return v, nil, true
		}
		out := make([]any, 0, len(v))
		for i, e := range v {
			inner, more, ok := s.each.splitValue(e, path+"["+strconv.Itoa(i)+"]", r)
			if !ok {
				inner = object{} // those behind it keep their places
			}
			out, unknown = append(out, inner), append(unknown, more...)
		}
		return out, unknown, true
	}
	return v, nil, true
}

// beside gives the fields that there are where a path leads to one that there is not,
// sorted, and the last part of the path.
func (s *shape) beside(path string) (fields []string, name string) {
	words := strings.FieldsFunc(path, func(c rune) bool { return c == '.' || c == '[' || c == ']' })
	name = words[len(words)-1]
	for _, w := range words[:len(words)-1] {
		switch {
		case s == nil:
			return nil, name
		case s.fields != nil:
			s = s.fields[w]
		default:
			s = s.each
		}
	}
	if s == nil {
		return nil, name
	}
	return slices.Sorted(maps.Keys(s.fields)), name
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

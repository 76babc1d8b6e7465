package configstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// objectOf gives the object that a struct marshals to.
func objectOf(v any) (object, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parseObject(raw)
}

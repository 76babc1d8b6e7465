package admin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// document is openapi.yaml, with just enough of JSON schema to check answers:
// every key that the file uses is known here.
type document struct {
	Paths      map[string]map[string]yaml.Node `yaml:"paths"`
	Components struct {
		Schemas   map[string]*schema   `yaml:"schemas"`
		Responses map[string]*response `yaml:"responses"`
	} `yaml:"components"`
}

type operation struct {
	Summary     string               `yaml:"summary"`
	Role        string               `yaml:"x-role"`
	Tenant      string               `yaml:"x-tenant"`
	Responses   map[string]*response `yaml:"responses"`
	RequestBody struct {
		Content map[string]content `yaml:"content"`
	} `yaml:"requestBody"`
}

type response struct {
	Ref     string             `yaml:"$ref"`
	Content map[string]content `yaml:"content"`
}

type content struct {
	Schema *schema `yaml:"schema"`
}

type schema struct {
	Ref        string             `yaml:"$ref"`
	Type       string             `yaml:"type"`
	Pattern    string             `yaml:"pattern"`
	Enum       []string           `yaml:"enum"`
	OneOf      []*schema          `yaml:"oneOf"`
	Required   []string           `yaml:"required"`
	Properties map[string]*schema `yaml:"properties"`
	Additional *schema            `yaml:"additionalProperties"`
	Items      *schema            `yaml:"items"`
}

func parseDocument(t *testing.T, text []byte) *document {
	t.Helper()
	var d document
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// operations gives "GET /path" to operation.
func (d *document) operations(t *testing.T) map[string]operation {
	t.Helper()
	out := map[string]operation{}
	for path, methods := range d.Paths {
		for method, node := range methods {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := node.Decode(&op); err != nil {
				t.Fatal(err)
			}
			out[strings.ToUpper(method)+" "+path] = op
		}
	}
	return out
}

func (d *document) response(r *response) *response {
	if name, isRef := strings.CutPrefix(r.Ref, "#/components/responses/"); isRef {
		return d.Components.Responses[name]
	}
	return r
}

// check holds a JSON document against a schema: nothing missing, nothing that
// the schema does not name.
func (d *document) check(s *schema, text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return d.value(s, v, "answer")
}

func (d *document) value(s *schema, v any, at string) error {
	if s == nil {
		return fmt.Errorf("%s: no schema", at)
	}
	if name, isRef := strings.CutPrefix(s.Ref, "#/components/schemas/"); isRef {
		return d.value(d.Components.Schemas[name], v, at)
	}
	if len(s.OneOf) > 0 {
		fits := slices.ContainsFunc(s.OneOf, func(o *schema) bool { return d.value(o, v, at) == nil })
		if !fits {
			return fmt.Errorf("%s: %v fits no form", at, v)
		}
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		return d.object(s, v, at)
	case []any:
		if s.Type != "array" {
			return fmt.Errorf("%s: an array, want %s", at, s.Type)
		}
		for i, e := range v {
			if err := d.value(s.Items, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
		return nil
	case string:
		return s.text(v, at)
	case bool:
		return s.is("boolean", at)
	case nil:
		return s.is("null", at)
	case float64:
		if s.Type == "integer" && v == float64(int64(v)) {
			return nil
		}
		return s.is("number", at)
	}
	return fmt.Errorf("%s: %T", at, v)
}

func (s *schema) is(kind, at string) error {
	if s.Type != kind {
		return fmt.Errorf("%s: a %s, want %s", at, kind, s.Type)
	}
	return nil
}

func (s *schema) text(v, at string) error {
	if err := s.is("string", at); err != nil {
		return err
	}
	if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(v) {
		return fmt.Errorf("%s: %q does not match %s", at, v, s.Pattern)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		return fmt.Errorf("%s: %q is none of %v", at, v, s.Enum)
	}
	return nil
}

func (d *document) object(s *schema, v map[string]any, at string) error {
	if err := s.is("object", at); err != nil {
		return err
	}
	for _, name := range s.Required {
		if _, there := v[name]; !there {
			return fmt.Errorf("%s: no %q", at, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property := s.Properties[name]
		if property == nil {
			property = s.Additional
		}
		if property == nil {
			return fmt.Errorf("%s: %q is not described", at, name)
		}
		if err := d.value(property, v[name], at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

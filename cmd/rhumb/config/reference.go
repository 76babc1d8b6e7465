package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Field is one line of the reference.
type Field struct {
	Path    string // as in the file, such as listeners[].bind
	Default string // empty if the field has none
	Doc     string
}

// Fields gives the reference of all fields in the order of the file.
func Fields() []Field {
	d := Defaults()
	return fieldsOf(reflect.ValueOf(d), "")
}

// Reference gives the same as a Markdown table.
func Reference() string {
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n| --- | --- | --- |\n")
	for _, f := range Fields() {
		def := ""
		if f.Default != "" {
			def = "`" + f.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path, def, strings.ReplaceAll(f.Doc, "|", `\|`))
	}
	return b.String()
}

func fieldsOf(v reflect.Value, prefix string) []Field {
	var out []Field
	for i := range v.NumField() {
		f, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		path := prefix + name
		doc := f.Tag.Get("doc")
		switch kind := f.Type.Kind(); {
		case kind == reflect.Struct:
			out = append(out, fieldsOf(value, path+".")...)
		case kind == reflect.Pointer:
			out = append(out, fieldsOf(reflect.New(f.Type.Elem()).Elem(), path+".")...)
		case kind == reflect.Slice && f.Type.Elem().Kind() != reflect.Struct:
			out = append(out, Field{Path: path, Doc: doc})
		case kind == reflect.Slice:
			out = append(out, Field{Path: path, Doc: doc})
			out = append(out, fieldsOf(reflect.New(f.Type.Elem()).Elem(), path+"[].")...)
		default:
			out = append(out, Field{Path: path, Default: defaultText(value), Doc: doc})
		}
	}
	return out
}

// defaultText gives a default as it would stand in the file; empty strings and
// maps are none.
func defaultText(v reflect.Value) string {
	if (v.Kind() == reflect.String || v.Kind() == reflect.Map) && v.IsZero() {
		return ""
	}
	return fmt.Sprint(v.Interface())
}

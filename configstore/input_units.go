package configstore

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// writeOut replaces what a person may write shorter than it is stored: retention
// as a duration (retention: 30d), and its bounds as texts with units (ms: 30d,
// bytes: 10GB). What is stored has one way to be written.
func writeOut(kind docKind, o object) error {
	if kind != kindNamespace && kind != kindTopic {
		return nil
	}
	if err := writeOutRetention(o, "retention"); err != nil {
		return err
	}
	regions, _ := o["regions"].(object)
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		if r, ok := regions[name].(object); ok {
			if err := writeOutRetention(r, "regions."+name+".retention"); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeOutRetention(in object, field string) error {
	if text, ok := in["retention"].(string); ok {
		in["retention"] = object{"ms": text}
		if err := writeOutBounds(in["retention"].(object), field, ""); err != nil {
			return err
		}
		return nil
	}
	if r, ok := in["retention"].(object); ok {
		return writeOutBounds(r, field, ".ms")
	}
	return nil
}

// writeOutBounds replaces the texts of one retention; msField follows the field
// in a refusal of its time.
func writeOutBounds(r object, field, msField string) error {
	if text, ok := r["ms"].(string); ok {
		d, err := ParseDuration(text)
		if err != nil {
			return invalid(field+msField, "%v", err)
		}
		r["ms"] = json.Number(strconv.FormatInt(d.Milliseconds(), 10))
	}
	if text, ok := r["bytes"].(string); ok {
		n, err := ParseBytes(text)
		if err != nil {
			return invalid(field+".bytes", "%v", err)
		}
		r["bytes"] = json.Number(strconv.FormatInt(n, 10))
	}
	return nil
}

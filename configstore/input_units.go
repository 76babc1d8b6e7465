package configstore

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// writeOut replaces what a person may write shorter than it is stored: retention
// as a duration (retention: 30d) or -1 for no limit of time, and its bounds as texts
// with units (ms: 30d, bytes: 10GB). What is stored has one way to be written.
func writeOut(kind docKind, o object) error {
	if kind != kindNamespace && kind != kindTopic {
		return nil
	}
	if err := writeOutRetention(o, "retention"); err != nil {
		return err
	}
	if b, ok := o["backlog"].(object); ok {
		if err := checkHold(b); err != nil {
			return err
		}
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

// noLimit is how a bound is written that is none.
const noLimit = "-1"

func writeOutRetention(in object, field string) error {
	switch r := in["retention"].(type) {
	case string:
		in["retention"] = object{"ms": r}
		return writeOutBounds(in["retention"].(object), field, "")
	case json.Number:
		if r != noLimit {
			return invalid(field, "must be a length of time such as 7d or 12h, bounds such as {ms: 7d, bytes: 10GB}, or -1 for no limit, not %s", r)
		}
		in["retention"] = object{"ms": r}
	case object:
		return writeOutBounds(r, field, ".ms")
	}
	return nil
}

// checkHold refuses a hold that is no length of time, with its field.
func checkHold(backlog object) error {
	hold, there := backlog["hold"]
	if !there || hold == nil {
		return nil
	}
	var p Period
	if text, ok := hold.(string); !ok || p.UnmarshalText([]byte(text)) != nil {
		return invalid("backlog.hold", "must be a length of time such as 7d, 36h or 90m, not %v", hold)
	}
	return nil
}

// writeOutBounds replaces the texts of one retention; msField follows the field
// in a refusal of its time.
func writeOutBounds(r object, field, msField string) error {
	for _, bound := range []string{"ms", "bytes"} {
		if r[bound] == noLimit {
			r[bound] = json.Number(noLimit)
		}
	}
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

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
//
// What cannot be read is taken out, and all of it is refused.
func writeOut(kind docKind, o object) error {
	if kind != kindNamespace && kind != kindTopic {
		return nil
	}
	var r refusals
	r.add(writeOutRetention(o, "retention"))
	if b, ok := o["backlog"].(object); ok {
		r.add(checkHold(b))
	}
	regions, _ := o["regions"].(object)
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		if own, ok := regions[name].(object); ok {
			r.add(writeOutRetention(own, "regions."+name+".retention"))
		}
	}
	return r.err()
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
			delete(in, "retention")
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
		delete(backlog, "hold")
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
	var wrong refusals
	if text, ok := r["ms"].(string); ok {
		d, err := ParseDuration(text)
		r["ms"] = json.Number(strconv.FormatInt(d.Milliseconds(), 10))
		if err != nil {
			delete(r, "ms")
			wrong.add(invalid(field+msField, "%v", err))
		}
	}
	if text, ok := r["bytes"].(string); ok {
		n, err := ParseBytes(text)
		r["bytes"] = json.Number(strconv.FormatInt(n, 10))
		if err != nil {
			delete(r, "bytes")
			wrong.add(invalid(field+".bytes", "%v", err))
		}
	}
	return wrong.err()
}

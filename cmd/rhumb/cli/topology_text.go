package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/configstore"
)

// marks stand before what a plan adds, changes and removes.
var marks = map[configstore.Action]string{configstore.ActionAdd: "+", configstore.ActionChange: "~", configstore.ActionRemove: "-"}

// planText writes a plan for people.
func planText(w io.Writer, p planShown) {
	if p.Empty() {
		fmt.Fprintln(w, "nothing to do: what the file says is in force")
		warningsText(w, p.Warnings)
		return
	}
	counts := map[configstore.Action]int{}
	for _, s := range p.Steps {
		fmt.Fprintf(w, "%s %s %s\n", marks[s.Action], s.Kind, s.Name)
		fieldsText(w, s.Changes)
		counts[s.Action]++
	}
	if len(p.Edges) > 0 {
		fmt.Fprintln(w, "\nEdges:")
	}
	for _, c := range p.Edges {
		fmt.Fprintf(w, "%s %s\n", marks[c.Action], edgeText(c))
		if note := p.Figures.of(c); note != "" {
			fmt.Fprintf(w, "      %s\n", note)
		}
	}
	warningsText(w, p.Warnings)
	fmt.Fprintf(w, "\nPlan: %d to add, %d to change, %d to remove.\n", counts[configstore.ActionAdd], counts[configstore.ActionChange], counts[configstore.ActionRemove])
}

func warningsText(w io.Writer, warnings []string) {
	if len(warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
	}
	for _, text := range warnings {
		fmt.Fprintf(w, "! %s\n", text)
	}
}

func fieldsText(w io.Writer, changes []configstore.FieldChange) {
	for _, f := range changes {
		switch {
		case f.Before == nil:
			fmt.Fprintf(w, "      %s: %s\n", f.Field, fieldValue(f.Field, f.After))
		case f.After == nil:
			fmt.Fprintf(w, "      %s: was %s\n", f.Field, fieldValue(f.Field, f.Before))
		default:
			fmt.Fprintf(w, "      %s: %s -> %s\n", f.Field, fieldValue(f.Field, f.Before), fieldValue(f.Field, f.After))
		}
	}
}

// fieldValue writes a field's value as a person writes it in a file: bounds of retention
// with their units.
func fieldValue(field string, raw json.RawMessage) string {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return valueText(raw)
	}
	before, bound := cutLast(field, ".")
	_, of := cutLast(before, ".")
	return cmp.Or(boundText(of, bound, n), valueText(raw))
}

// cutLast is strings.Cut at the last separator; all of the text is after it if it has none.
func cutLast(text, sep string) (before, after string) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return "", text
	}
	return text[:i], text[i+len(sep):]
}

// boundText writes a bound of retention; empty if it is none, or no limit.
func boundText(of, bound string, n int64) string {
	switch {
	case of != "retention" || n < 0:
	case bound == "ms":
		return configstore.FormatDuration(n)
	case bound == "bytes":
		return configstore.FormatBytes(n)
	}
	return ""
}

// valueText writes a field's value as YAML has it in one line.
func valueText(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	switch v := v.(type) {
	case string:
		return v
	case []any:
		var words []string
		for _, e := range v {
			if s, ok := e.(string); ok {
				words = append(words, s)
			}
		}
		if len(words) == len(v) {
			return "[" + strings.Join(words, ", ") + "]"
		}
	}
	return string(raw)
}

// edgeText says what an edge is, and of one that changes what it was.
func edgeText(c configstore.EdgeChange) string {
	e := c.Edge()
	name := string(e.Tenant) + "/" + string(e.Namespace)
	if e.Topic != "" {
		name += "/" + string(e.Topic)
	}
	gone := c.Action == configstore.ActionChange && c.Before.Gone != e.Gone
	text := fmt.Sprintf("%s: %s -> %s  %s", name, e.From, e.To, traitsText(e, gone))
	if c.Action == configstore.ActionChange {
		text += "  (was: " + traitsText(*c.Before, gone) + ")"
	}
	return text
}

// traitsText says how an edge carries; with gone also, whether what removed regions
// published comes over it, which follows from the shape.
func traitsText(e configstore.PlanEdge, gone bool) string {
	traits := []string{"start " + string(e.Start)}
	if e.Forward {
		traits = append(traits, "forward")
	}
	if gone && e.Gone {
		traits = append(traits, "records of removed regions too")
	}
	if e.Rate > 0 {
		traits = append(traits, "at most "+limitText(e.Rate))
	}
	return strings.Join(traits, ", ")
}

// appliedText writes what became of each step.
func appliedText(w io.Writer, a configstore.Applied) {
	if len(a.Steps) == 0 {
		fmt.Fprintln(w, "nothing to do: what the file says is in force")
		return
	}
	steps, left := map[string]int{}, map[string]bool{}
	for _, s := range a.Steps {
		key := s.Kind + " " + s.Name
		steps[key]++
		if s.State != configstore.StepDone {
			left[key] = true
		}
	}
	seen := map[string]bool{}
	for _, s := range a.Steps {
		key, why := s.Kind+" "+s.Name, ""
		if steps[key] > 1 { // a tenant whose namespaces move from some regions to others
			why = " (allows the regions of before and after while its namespaces change)"
			if seen[key] {
				why = " (allows those of the file alone)"
			}
		}
		fmt.Fprintf(w, "%s %s: %s%s\n", marks[s.Action], key, s.State, why)
		seen[key] = true
	}
	done := len(steps) - len(left)
	if a.Complete {
		fmt.Fprintf(w, "applied: %d documents, %d edges change in every region within seconds\n", done, len(a.Edges))
		return
	}
	fmt.Fprintf(w, "%d of %d documents are stored\n", done, len(steps))
}

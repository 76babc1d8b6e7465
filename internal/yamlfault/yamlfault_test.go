package yamlfault

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Each line that is wrong ends with a mark: that is the line that is told.
func TestLineThatIsWrong(t *testing.T) {
	const mark = " # HERE"
	for _, text := range []string{
		"a: 1\nb:\n  c: 1\n   d: 2 # HERE\ne: 1\n",                                           // indented too far
		"a: 1\nb:\n   c: 1\n  d: 2 # HERE\ne: 1\n",                                           // too little
		"a: [us, eu # HERE\nb: 1\nc: 2\n",                                                    // never closed
		"x: [us,\n  eu]\ny: {a: 1,\n  b: 2}\na: [us, eu # HERE\nb: 1\n",                      // after others over several lines
		"a: 1\n\nb: us, eu]\nc: 'x # HERE\nd: 1\n",                                           // a quote that does not end
		"a: 1\n\tb: 2 # HERE\nc: 1\n",                                                        // a tab
		"a: 1\nb: *who # HERE\nc: 1\n",                                                       // nobody is called so
		"a: 1\nb: c: d # HERE\ne: 1\n",                                                       // two in one line
		"a: 1\nb: @x # HERE\n",                                                               // no such sign
		"a: 1\nb: } # HERE\n", "a: 1\nbc # HERE\nd: 1\n", "a: 1\nb: \"x # HERE\n  y\nd: 1\n", // never opened
		"a: 1\n- b # HERE\n",
		"- b\na: 1 # HERE\n",
		"a: 1\nb: \x01 # HERE\nc: 1\n",
		"[a # HERE",
		"a: 1\n---\nb: [ # HERE\n",
		"a: 1\nb: 2\na: 3 # HERE\nc: 1\nb: 1\n",
	} {
		var v map[string]any
		err := yaml.Unmarshal([]byte(text), &v)
		if strings.Contains(text, "---") {
			d := yaml.NewDecoder(strings.NewReader(text))
			for err == nil {
				err = d.Decode(&v)
			}
		}
		if err == nil {
			t.Errorf("%q is YAML", text)
			continue
		}
		want := 1 + strings.Count(text[:strings.Index(text, mark)], "\n")
		got := Of([]byte(text), err)
		if got[0].Line != want || strings.Contains(got[0].What, "line ") && !strings.Contains(got[0].What, "already defined") {
			t.Errorf("%q: %v is told as %+v, want line %d", text, err, got, want)
		}
	}
}

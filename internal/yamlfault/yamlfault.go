package yamlfault

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Fault is one thing that is wrong with a text.
type Fault struct {
	Line int // from 1 on
	What string
}

// Of gives what the decoder's error says of a text, by line; never nothing. Of a text that
// is no YAML it is the first line without which the rest would not have failed so: it is
// read again some twenty times, which is for errors only.
func Of(text []byte, err error) []Fault {
	var types *yaml.TypeError
	if errors.As(err, &types) {
		var all []Fault
		for _, e := range types.Errors {
			line, what := numbered(e)
			all = append(all, Fault{max(1, line), what})
		}
		slices.SortStableFunc(all, func(a, b Fault) int { return a.Line - b.Line })
		return all
	}
	line, what := numbered(err.Error())
	if _, whole := numbered(failure(text)); whole != what { // it is YAML, of which somebody did not want a value
		return []Fault{{max(1, line), what}}
	}
	ends := lineEnds(text)
	line = 1 + sort.Search(len(ends)-1, func(i int) bool {
		_, got := numbered(failure(text[:ends[i]]))
		return got == what
	})
	if plain, ok := plainer[what]; ok {
		what = plain
	}
	return []Fault{{line, what}}
}

// plainer says what the library says in words that a person can act on.
var plainer = map[string]string{
	"found unexpected end of stream": "a quote that begins here does not end",
	"did not find expected key":      "did not find expected key: is it indented as those beside it are?",
	"could not find expected ':'":    "could not find expected ':' after a name",
}

// lineEnds gives where each line ends.
func lineEnds(text []byte) []int {
	var ends []int
	for i := 0; i < len(text); {
		n := bytes.IndexByte(text[i:], '\n')
		if n < 0 {
			n = len(text) - i - 1
		}
		i += n + 1
		ends = append(ends, i)
	}
	if ends == nil {
		return []int{0}
	}
	return ends
}

// failure gives why a text is no YAML, empty if it is.
func failure(text []byte) string {
	in := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := in.Decode(&n); err != nil {
			return err.Error() // EOF is no fault
		}
	}
}

var number = regexp.MustCompile(`^(?:yaml: )?(?:line ([0-9]+): )?`)

// numbered takes the line from what the library says, zero if it says none.
func numbered(said string) (line int, what string) {
	m := number.FindStringSubmatch(said)
	line, _ = strconv.Atoi(m[1])
	return line, strings.TrimSpace(said[len(m[0]):])
}

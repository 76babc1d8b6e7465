package nearest

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

const (
	most        = 3 // names that are offered: more are a list, and there are commands for lists
	maxDistance = 3 // slips in one word beyond which two names are two names
	minPrefix   = 3 // letters that say which name is meant when it goes on
)

// Names gives the names most like the one that was typed, the likeliest first, at most
// three; none if nothing is like it. Alike are names a few slips apart (a letter that is
// left out, added, wrong or in its neighbour's place), and those of which one begins with
// the other. The cost is bounded by the number of names times their length.
func Names(typed string, known iter.Seq[string]) []string { return names(typed, known, begins) }

// Slips gives those of them that are a few slips apart, and not the name itself.
func Slips(typed string, known iter.Seq[string]) []string {
	return names(typed, known, func(a, b string) bool { return false })
}

func names(typed string, known iter.Seq[string], begins func(a, b string) bool) []string {
	limit := min(maxDistance, 1+len(typed)/4)
	type like struct {
		name string
		far  int
	}
	var found []like
	for name := range known {
		far := distance(strings.ToLower(typed), strings.ToLower(name), limit)
		if far > limit && begins(typed, name) {
			far = limit + 1
		}
		if far <= limit+1 && (far <= limit || begins(typed, name)) {
			found = append(found, like{name, far})
		}
	}
	slices.SortFunc(found, func(a, b like) int {
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	found = slices.CompactFunc(found, func(a, b like) bool { return a.name == b.name })
	var out []string
	for _, l := range found[:min(most, len(found))] {
		out = append(out, l.name)
	}
	return out
}

// Hint gives the names most like the one that was typed, of things and their names, as the
// end of an error's first half, such as " (nearest: orders, order)"; empty if there are none.
func Hint[T any](typed string, all []T, name func(*T) string) string {
	names := Names(typed, func(yield func(string) bool) {
		for i := range all {
			if !yield(name(&all[i])) {
				return
			}
		}
	})
	if len(names) == 0 {
		return ""
	}
	return " (nearest: " + strings.Join(names, ", ") + ")"
}

// begins reports whether one of two names begins with the other.
func begins(a, b string) bool {
	return min(len(a), len(b)) >= minPrefix && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a))
}

// distance counts the slips between two names: letters left out, added or wrong, and
// neighbours that changed places (optimal string alignment). Above limit it gives
// something above limit.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		lowest := row[0]
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(last[j]+wrong, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
			lowest = min(lowest, row[j+1])
		}
		if lowest > limit {
			return limit + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

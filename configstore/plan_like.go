package configstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// likeWarnings names what a plan makes anew under a name that is nearly one which is
// there and which the file does not name: a slip makes another tenant or namespace, and
// leaves the one that was meant as it is.
func likeWarnings(now *picture, f *TopologyFile) (out []string) {
	tenants := slices.Collect(maps.Keys(now.tenants))
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return compareKeys(&x.Tenant, &y.Tenant) }) {
		if _, there := now.tenants[t.Name]; !there {
			named := func(n rhumb.Tenant) bool { _, is := f.Tenants[n]; return is }
			out = append(out, likeText("tenant", t.Name, tenants, named)...)
			continue
		}
		var spaces []rhumb.Namespace
		for at := range now.namespaces {
			if at.tenant == t.Name {
				spaces = append(spaces, at.name)
			}
		}
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return compareKeys(&x.Namespace, &y.Namespace) }) {
			if _, there := now.namespaces[namespaceName{n.Tenant, n.Name}]; !there {
				named := func(n rhumb.Namespace) bool { _, is := t.Namespaces[n]; return is }
				out = append(out, likeText("namespace", n.Name, spaces, named)...)
			}
		}
	}
	return out
}

// likeText tells of names that are a slip away from a new one. Numbers tell things apart.
func likeText[N ~string](kind string, name N, there []N, named func(N) bool) []string {
	word := func(n N) string { return strings.Trim(string(n), "0123456789") }
	there = slices.DeleteFunc(slices.Clone(there), func(n N) bool { return named(n) || word(n) == word(name) })
	like := nearest.Slips(string(name), func(yield func(string) bool) {
		for _, n := range there {
			if !yield(string(n)) {
				return
			}
		}
	})
	if len(like) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s %s is made anew, and there is %s, which the file does not name: is that the one that is meant?", kind, name, strings.Join(like, ", "))}
}

package configstore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// warningsOf says what an operator would want to know of a plan that documents
// alone tell. What the regions' figures tell is for who asks the regions.
func warningsOf(now, next *picture) []string {
	out := []string{}
	for _, n := range sortedValues(next.namespaces, func(a, b Namespace) int { return compareKeys(&a, &b) }) {
		key := namespaceName{n.Tenant, n.Name}
		before, there := now.namespaces[key]
		if there && len(fieldChanges(documentFields(true, &before), documentFields(true, &n))) == 0 {
			continue
		}
		name := string(n.Tenant) + "/" + string(n.Name)
		out = append(out, regionWarnings(name, &n, next)...)
		out = append(out, roleWarnings(name, &before, &n)...)
		out = append(out, pathWarnings(name, n.Topology)...)
		out = append(out, n.SizeOnly()...)
	}
	out = append(out, sizeOnlyTopics(now, next)...)
	out = append(out, edgeWarnings(now, next)...)
	for _, n := range sortedValues(now.namespaces, func(a, b Namespace) int { return compareKeys(&a, &b) }) {
		if _, stays := next.namespaces[namespaceName{n.Tenant, n.Name}]; !stays {
			out = append(out, fmt.Sprintf("namespace %s/%s is removed: its topics and records stay, clients go on writing to them, and none of that reaches another region until it is made again", n.Tenant, n.Name))
		}
	}
	for _, p := range next.dropped {
		out = append(out, fmt.Sprintf("%s: %s", strings.TrimPrefix(p.Key, Prefix), p.Reason))
	}
	return out
}

func regionWarnings(name string, n *Namespace, p *picture) (out []string) {
	named := n.Topology.Regions()
	for _, r := range named {
		if region := p.regions[r]; region.Drains() {
			out = append(out, fmt.Sprintf("namespace %s names region %s, which is %s", name, r, region.State))
		}
	}
	for _, r := range slices.Sorted(maps.Keys(n.Regions)) {
		if !slices.Contains(named, r) {
			out = append(out, fmt.Sprintf("namespace %s has settings for region %s, to which it does not flow", name, r))
		}
	}
	return out
}

// removedWarnings names regions that were removed from the mesh and that the file
// names all the same. Where an edge would lead to one, the edge is told of already.
func removedWarnings(p *picture, f *TopologyFile) (out []string) {
	gone := func(r rhumb.RegionName) bool {
		region, there := p.regions[r]
		return !there || region.Deleted
	}
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return cmp.Compare(x.Name, y.Name) }) {
		for _, r := range t.AllowedRegions {
			if gone(r) {
				out = append(out, fmt.Sprintf("tenant %s allows region %s, which is not registered any more", t.Name, r))
			}
		}
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return cmp.Compare(x.Name, y.Name) }) {
			for _, r := range slices.Sorted(maps.Keys(n.Regions)) {
				if gone(r) {
					out = append(out, fmt.Sprintf("namespace %s/%s has settings for region %s, which is not registered any more", n.Tenant, n.Name, r))
				}
			}
		}
	}
	return out
}

func roleWarnings(name string, before, after *Namespace) (out []string) {
	was, is := before.Active(), after.Active()
	switch {
	case was == is:
	case was == "":
		out = append(out, fmt.Sprintf("only region %s takes producers in namespace %s from then on: all others refuse them", is, name))
	case is == "":
		out = append(out, fmt.Sprintf("namespace %s has no roles any more: every region takes producers from then on", name))
	default:
		out = append(out, fmt.Sprintf("the active region of namespace %s changes from %s to %s, generation %d: nothing is fenced or drained first; "+
			"stop the producers in %[2]s and wait until its links show no lag, or %[3]s takes records before the last ones of %[2]s are there",
			name, was, is, before.Generation+1))
	}
	return out
}

// pathWarnings names origins whose records edges lead on without carrying them,
// because a region in between does not forward.
func pathWarnings(name string, t *Topology) (out []string) {
	if t == nil || t.Edges == nil {
		return nil
	}
	edges := t.compile()
	for _, from := range t.Regions() {
		carried, led := reachable(edges, from, false), reachable(edges, from, true)
		var lost []string
		for _, to := range slices.Sorted(maps.Keys(led)) {
			if !carried[to] {
				lost = append(lost, string(to))
			}
		}
		if len(lost) > 0 {
			out = append(out, fmt.Sprintf("in namespace %s records of %s end before %s: edges lead on, but without forward: true they carry only records of their own source",
				name, from, strings.Join(lost, ", ")))
		}
	}
	return out
}

// reachable gives the regions that an origin's records reach, over one edge and then
// over any that forward; with all, whether they forward or not.
func reachable(edges []Edge, from rhumb.RegionName, all bool) map[rhumb.RegionName]bool {
	out := map[rhumb.RegionName]bool{}
	for at := []rhumb.RegionName{from}; len(at) > 0; at = at[1:] {
		for _, e := range edges {
			if e.From != at[0] || e.To == from || out[e.To] || e.From != from && !e.Forward && !all {
				continue
			}
			out[e.To] = true
			at = append(at, e.To)
		}
	}
	return out
}

// flowName is what edges belong to: a namespace, or a topic with a topology of its own.
type flowName struct {
	tenant    rhumb.Tenant
	namespace rhumb.Namespace
	topic     rhumb.TopicName
}

func (f flowName) String() string {
	if f.topic == "" {
		return "namespace " + string(f.tenant) + "/" + string(f.namespace)
	}
	return "topic " + pathOf(rhumb.Topic{Tenant: f.tenant, Namespace: f.namespace, Name: f.topic})
}

func flowsOf(edges []Edge) map[flowName][]Edge {
	out := map[flowName][]Edge{}
	for _, e := range edges {
		f := flowName{e.Tenant, e.Namespace, e.Topic}
		out[f] = append(out[f], e)
	}
	return out
}

// edgeWarnings says where records stop to come, and where a new start means nothing.
func edgeWarnings(now, next *picture) (out []string) {
	was, will := effectiveEdges(now, next)
	before, after := flowsOf(was), flowsOf(will)
	for _, f := range slices.SortedFunc(maps.Keys(before), func(a, b flowName) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.topic, b.topic))
	}) {
		if slices.Equal(before[f], after[f]) {
			continue
		}
		out = append(out, lostWarnings(f, before[f], after[f])...)
		out = append(out, startWarnings(f, before[f], after[f])...)
	}
	return out
}

// startWarnings says of what flows in one namespace which edges have another start.
func startWarnings(f flowName, before, after []Edge) (out []string) {
	edges := map[Start][]string{}
	for _, c := range edgeChanges(before, after) {
		if c.Action == ActionChange && c.Before.Start != c.After.Start {
			edges[c.After.Start] = append(edges[c.After.Start], fmt.Sprintf("%s -> %s", c.After.From, c.After.To))
		}
	}
	for _, start := range slices.Sorted(maps.Keys(edges)) {
		out = append(out, fmt.Sprintf("of %s start %s: %s: that holds for partitions that an edge has not carried yet, the others have their start already",
			f, start, strings.Join(edges[start], ", ")))
	}
	return out
}

// lostWarnings names regions that records of an origin reached and reach no more.
func lostWarnings(f flowName, before, after []Edge) (out []string) {
	origins := map[rhumb.RegionName]bool{}
	for _, e := range before {
		origins[e.From] = true
	}
	for _, from := range slices.Sorted(maps.Keys(origins)) {
		had, has := reachable(before, from, false), reachable(after, from, false)
		var lost []string
		for _, to := range slices.Sorted(maps.Keys(had)) {
			if !has[to] {
				lost = append(lost, string(to))
			}
		}
		if len(lost) > 0 {
			out = append(out, fmt.Sprintf("records of %s no longer reach %s in %s: no path is left; what is there stays", from, strings.Join(lost, ", "), f))
		}
	}
	return out
}

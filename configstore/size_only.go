package configstore

import (
	"fmt"
	"maps"
	"slices"
)

// sizeOnly reports whether retention is bounded by a size and says nothing of time. The
// region's own bound of time holds then, by default of a week, so that records may go
// long before the size is reached.
func (r *Retention) sizeOnly() bool {
	return r != nil && r.Bytes != nil && *r.Bytes >= 0 && r.Milliseconds == nil
}

// SizeOnly says where the namespace bounds retention by a size and leaves the time to
// the regions, as warnings: who writes only a size hardly means that.
func (n *Namespace) SizeOnly() (out []string) {
	if n.Retention.sizeOnly() {
		out = append(out, sizeOnlyText("namespace "+string(n.Tenant)+"/"+string(n.Name), *n.Retention.Bytes))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Regions)) {
		own := n.Regions[name].Retention
		if !own.sizeOnly() || n.Retention != nil && n.Retention.Milliseconds != nil || n.Retention.sizeOnly() {
			continue // the namespace says the time, or is warned of
		}
		out = append(out, sizeOnlyText(fmt.Sprintf("namespace %s/%s in region %s", n.Tenant, n.Name, name), *own.Bytes))
	}
	return out
}

// sizeOnlyIn does the same for a topic of a namespace.
func (t *Topic) sizeOnlyIn(n *Namespace) (out []string) {
	if t.Retention.sizeOnly() && (n.Retention == nil || n.Retention.Milliseconds == nil) {
		out = append(out, sizeOnlyText("topic "+pathOf(t.Topic), *t.Retention.Bytes))
	}
	return out
}

func sizeOnlyText(what string, bytes int64) string {
	return fmt.Sprintf("retention of %s says a size and no time: records go after the time that each region's file says (kafka.retention, 7d by default), too, however few they are; "+
		"write retention: {ms: -1, bytes: %s} if the size alone counts", what, FormatBytes(bytes))
}

// SizeOnly gives what [Namespace.SizeOnly] says of all that the file names.
func (f *TopologyFile) SizeOnly() []string {
	out := []string{}
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return compareKeys(&x.Tenant, &y.Tenant) }) {
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return compareKeys(&x.Namespace, &y.Namespace) }) {
			out = append(out, n.SizeOnly()...)
			for _, topic := range sortedValues(n.Topics, func(x, y Topic) int { return compareKeys(&x, &y) }) {
				out = append(out, topic.sizeOnlyIn(&n.Namespace)...)
			}
		}
	}
	return out
}

// sizeOnlyTopics warns of topics whose policy a plan changes.
func sizeOnlyTopics(now, next *picture) (out []string) {
	for _, t := range sortedValues(next.topics, func(a, b Topic) int { return compareKeys(&a, &b) }) {
		before := now.topics[t.Topic]
		if len(fieldChanges(policyFields(&before), policyFields(&t))) > 0 {
			n := next.namespaces[namespaceName{t.Topic.Tenant, t.Topic.Namespace}]
			out = append(out, t.sizeOnlyIn(&n)...)
		}
	}
	return out
}

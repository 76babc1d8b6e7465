package configstore

import (
	"cmp"
	"encoding/json"

	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ExportTopology writes what is there as a topology file, which, applied, changes
// nothing. Fields that this version does not know are not in it; they stay where
// they are when it is applied.
func ExportTopology(tenants []Tenant, namespaces []Namespace, topics []Topic) json.RawMessage {
	file := object{}
	for i := range tenants {
		file[string(tenants[i].Name)] = documentFields(true, &tenants[i])
	}
	spaces := map[namespaceName]object{}
	for i := range namespaces {
		n := &namespaces[i]
		tenant, ok := file[string(n.Tenant)].(object)
		if !ok {
			continue
		}
		o := documentFields(true, n)
		spaces[namespaceName{n.Tenant, n.Name}] = o
		put(tenant, "namespaces", string(n.Name), o)
	}
	for i := range topics {
		t := &topics[i]
		if o := spaces[namespaceName{t.Topic.Tenant, t.Topic.Namespace}]; o != nil && t.HasPolicy() {
			put(o, "topics", string(t.Topic.Name), policyFields(t))
		}
	}
	return object{"tenants": file}.canonical()
}

// put puts an object under a name into the objects that a field holds.
func put(o object, field, name string, value object) {
	all, ok := o[field].(object)
	if !ok {
		all = object{}
		o[field] = all
	}
	all[name] = value
}

// Agrees refuses a file that contradicts itself: a namespace or topic that names a
// region which the file's own allowed_regions leave out. A mesh that has both refuses
// it, too.
func (f *TopologyFile) Agrees() error {
	var r refusals
	check := func(t *FileTenant, path string, places []place) {
		for _, at := range places {
			if !t.Allows(at.region) {
				hint := nearest.Hint(string(at.region), t.AllowedRegions, func(n *rhumb.RegionName) string { return string(*n) })
				r.add(invalid(join(path, at.field), "tenant %q does not allow region %q%s: the file's allowed_regions leave it out", string(t.Name), string(at.region), hint))
			}
		}
	}
	for _, t := range sortedValues(f.Tenants, func(x, y FileTenant) int { return cmp.Compare(x.Name, y.Name) }) {
		for _, n := range sortedValues(t.Namespaces, func(x, y FileNamespace) int { return cmp.Compare(x.Name, y.Name) }) {
			check(&t, namespacePath(t.Name, n.Name), n.places())
			for _, topic := range sortedValues(n.Topics, func(x, y Topic) int { return compareKeys(&x, &y) }) {
				check(&t, topicPath(topic.Topic), topic.Topology.places())
			}
		}
	}
	return r.err()
}

// Checked reports the edges that a file alone gives, without a mesh: what
// 'rhumb topology validate' counts.
func (f *TopologyFile) Checked() (namespaces, edges int) {
	for _, t := range f.Tenants {
		for _, n := range t.Namespaces {
			namespaces++
			own, err := Compile(&n.Namespace)
			if err == nil {
				edges += len(own)
			}
			for _, topic := range n.Topics {
				if own, err := CompileTopic(&topic); err == nil {
					edges += len(own)
				}
			}
		}
	}
	return namespaces, edges
}

package configstore

import (
	"encoding/json"
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

package configstore

import (
	"errors"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// TopologyFile is what an operator says of tenants, namespaces and topics in one
// file. As JSON:
//
//	{"tenants": {TENANT: {
//	   "allowed_regions": […],
//	   "namespaces": {NAMESPACE: {
//	      "topology": {…}, "retention": {…}, …,
//	      "topics": {TOPIC: {"topology": {…}, "retention": {…}}}}}}}}
//
// A namespace or topic that it names, it says whole: a field that it leaves out is
// left out. What it does not name stays as it is, the allowed regions of a tenant
// too: that a file is about a namespace must not open the tenant to all regions.
type TopologyFile struct {
	Tenants map[rhumb.Tenant]FileTenant
}

// FileTenant is a tenant with its namespaces.
type FileTenant struct {
	Tenant
	Namespaces map[rhumb.Namespace]FileNamespace
}

// FileNamespace is a namespace with those of its topics that have policy of their
// own.
type FileNamespace struct {
	Namespace
	Topics map[rhumb.TopicName]Topic
}

// notInFile are fields of documents that a topology file does not say, with the
// reason.
var notInFile = map[docKind]map[string]string{
	kindTenant:    {},
	kindNamespace: {"generation": "is the store's to count: leave it out"},
	kindTopic: {
		"deletions":  "is the store's to count: leave it out",
		"partitions": "is not policy: see 'rhumb topic partitions'",
		"configs":    "are not policy: see 'rhumb topic configs'; retention is written retention",
	},
}

// ReadTopologyFile reads a topology file, as JSON, and checks all that can be
// checked without a mesh: a refusal names the field, such as
// tenants.acme.namespaces.shop.topology.chain[1]. A field that is not known is
// refused.
func ReadTopologyFile(data []byte) (*TopologyFile, error) {
	o, err := parseObject(data)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: topology file: %w", err)
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if k != "tenants" {
			return nil, invalid(k, "no such field: a topology file has tenants")
		}
	}
	f := &TopologyFile{Tenants: map[rhumb.Tenant]FileTenant{}}
	err = eachObject(o, "tenants", "", func(name, path string, o object) error {
		t, err := readFileTenant(rhumb.Tenant(name), path, o)
		f.Tenants[t.Name] = t
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func readFileTenant(name rhumb.Tenant, path string, o object) (FileTenant, error) {
	out := FileTenant{Namespaces: map[rhumb.Namespace]FileNamespace{}}
	if err := name.Validate(); err != nil {
		return out, invalid(path, "%v", err)
	}
	err := eachObject(o, "namespaces", path, func(ns, path string, o object) error {
		n, err := readFileNamespace(name, rhumb.Namespace(ns), path, o)
		out.Namespaces[n.Name] = n
		return err
	})
	if err != nil {
		return out, err
	}
	if out.Tenant, err = readFileDocument[Tenant](o, "namespaces", path); err == nil {
		err = under(path, out.Tenant.validate())
	}
	out.Name = name
	return out, err
}

func readFileNamespace(tenant rhumb.Tenant, name rhumb.Namespace, path string, o object) (FileNamespace, error) {
	out := FileNamespace{Topics: map[rhumb.TopicName]Topic{}}
	if err := name.Validate(); err != nil {
		return out, invalid(path, "%v", err)
	}
	err := eachObject(o, "topics", path, func(topic, path string, o object) error {
		at := rhumb.Topic{Tenant: tenant, Namespace: name, Name: rhumb.TopicName(topic)}
		if err := at.Validate(); err != nil {
			return invalid(path, "%v", err)
		}
		t, err := readFileDocument[Topic](o, "", path)
		if err == nil {
			err = under(path, t.validatePolicy())
		}
		if err == nil && !t.HasPolicy() {
			err = invalid(path, "says nothing: give topology or retention, or leave the topic out")
		}
		t.Topic = at
		out.Topics[at.Name] = t
		return err
	})
	if err != nil {
		return out, err
	}
	if out.Namespace, err = readFileDocument[Namespace](o, "topics", path); err == nil {
		err = under(path, out.Namespace.validate())
	}
	out.Tenant, out.Name = tenant, name
	return out, err
}

// eachObject calls fn with each object of a field that holds objects by name, in
// the order of the names, with its path.
func eachObject(o object, field, path string, fn func(name, path string, o object) error) error {
	at := join(path, field)
	value, there := o[field]
	if !there {
		return nil
	}
	all, ok := value.(object)
	if !ok {
		return invalid(at, "must have names with what is said of each")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, ok := all[name].(object)
		if all[name] == nil && field == "namespaces" {
			return invalid(join(at, name), "says nothing: write {} if it is to flow nowhere, or leave it out")
		}
		if all[name] == nil {
			one, ok = object{}, true // a name alone, as YAML has it: nothing is said of it
		}
		if !ok {
			return invalid(join(at, name), "must have fields")
		}
		if err := fn(name, join(at, name), one); err != nil {
			return err
		}
	}
	return nil
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// readFileDocument reads what a file says of a document, without the field that
// holds what is under it.
func readFileDocument[T any, P pointerTo[T]](o object, inner, path string) (T, error) {
	var v T
	own := object{}
	for k, e := range o {
		if k != inner {
			own[k] = e
		}
	}
	kind := kindOf(P(&v))
	for _, k := range slices.Sorted(maps.Keys(own)) {
		switch k {
		case "version", "updated_at", "updated_by", "deleted":
			return v, invalid(join(path, k), "is the store's: leave it out")
		}
		if why, is := notInFile[kind][k]; is {
			return v, invalid(join(path, k), "%s", why)
		}
	}
	v, err := readObject[T, P](own)
	return v, under(path, err)
}

// under puts the path of a document in a file before the field that a refusal names.
func under(path string, err error) error {
	var fe *FieldError
	if err == nil || !errors.As(err, &fe) {
		return err
	}
	return &rhumb.Error{Kind: rhumb.KindOf(err), Err: &FieldError{Field: join(path, fe.Field), Reason: fe.Reason}}
}

// Paths of what a file names, for refusals.
func tenantPath(t rhumb.Tenant) string { return "tenants." + string(t) }

func namespacePath(t rhumb.Tenant, ns rhumb.Namespace) string {
	return tenantPath(t) + ".namespaces." + string(ns)
}

func topicPath(t rhumb.Topic) string {
	return namespacePath(t.Tenant, t.Namespace) + ".topics." + string(t.Name)
}

package configstore

import (
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
// tenants.acme.namespaces.shop.topology.chain[1], and all there are come at once
// ([FieldErrors]). A field that is not known is refused.
func ReadTopologyFile(data []byte) (*TopologyFile, error) {
	o, err := parseObject(data)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "configstore: topology file: %w", err)
	}
	var r refusals
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if k != "tenants" {
			r.add(invalid(k, "no such field: a topology file has tenants"))
		}
	}
	f := &TopologyFile{Tenants: map[rhumb.Tenant]FileTenant{}}
	r.add(eachObject(o, "tenants", "", func(name, path string, o object) error {
		t, err := readFileTenant(rhumb.Tenant(name), path, o)
		f.Tenants[t.Name] = t
		return err
	}))
	if err := r.err(); err != nil {
		return nil, err
	}
	return f, nil
}

func readFileTenant(name rhumb.Tenant, path string, o object) (FileTenant, error) {
	out := FileTenant{Namespaces: map[rhumb.Namespace]FileNamespace{}}
	var r refusals
	if err := name.Validate(); err != nil {
		r.add(invalid(path, "%v", err))
	}
	r.add(eachObject(o, "namespaces", path, func(ns, path string, o object) error {
		n, err := readFileNamespace(name, rhumb.Namespace(ns), path, o)
		out.Namespaces[n.Name] = n
		return err
	}))
	var err error
	out.Tenant, err = readFileDocument(o, "namespaces", path, (*Tenant).validate)
	r.add(err)
	out.Name = name
	return out, r.err()
}

func readFileNamespace(tenant rhumb.Tenant, name rhumb.Namespace, path string, o object) (FileNamespace, error) {
	out := FileNamespace{Topics: map[rhumb.TopicName]Topic{}}
	var r refusals
	if err := name.Validate(); err != nil {
		r.add(invalid(path, "%v", err))
	}
	r.add(eachObject(o, "topics", path, func(topic, path string, o object) error {
		at := rhumb.Topic{Tenant: tenant, Namespace: name, Name: rhumb.TopicName(topic)}
		if err := at.Name.Validate(); err != nil {
			return invalid(path, "%v", err)
		}
		t, err := readFileDocument(o, "", path, (*Topic).validatePolicy)
		if err == nil && !t.HasPolicy() {
			err = invalid(path, "says nothing: give topology or retention, or leave the topic out")
		}
		t.Topic = at
		out.Topics[at.Name] = t
		return err
	}))
	var err error
	out.Namespace, err = readFileDocument(o, "topics", path, (*Namespace).validate)
	r.add(err)
	out.Tenant, out.Name = tenant, name
	return out, r.err()
}

// eachObject calls fn with each object of a field that holds objects by name, in
// the order of the names, with its path, and gives all that it refuses.
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
	var r refusals
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one, ok := all[name].(object)
		if all[name] == nil && field == "namespaces" {
			r.add(invalid(join(at, name), "says nothing: write {} if it is to flow nowhere, or leave it out"))
			continue
		}
		if all[name] == nil {
			one, ok = object{}, true // a name alone, as YAML has it: nothing is said of it
		}
		if !ok {
			r.add(invalid(join(at, name), "must have fields"))
			continue
		}
		r.add(fn(name, join(at, name), one))
	}
	return r.err()
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

// readFileDocument reads what a file says of a document, without the field that
// holds what is under it, and checks it.
func readFileDocument[T any, P pointerTo[T]](o object, inner, path string, check func(*T) error) (T, error) {
	var v T
	var r refusals
	own := object{}
	kind := kindOf(P(&v))
	for _, k := range slices.Sorted(maps.Keys(o)) {
		why, is := notInFile[kind][k]
		switch {
		case k == inner:
		case k == "version" || k == "updated_at" || k == "updated_by" || k == "updated_caller" || k == "deleted":
			r.add(invalid(k, "is the store's: leave it out"))
		case is:
			r.add(invalid(k, "%s", why))
		default:
			own[k] = o[k]
		}
	}
	known := func(field string) bool {
		_, not := notInFile[kind][field]
		return !not && field != "version" && field != "updated_at" && field != "updated_by" && field != "updated_caller" && field != "deleted"
	}
	v, err := readObject[T, P](own, func(fields []string) []string {
		fields = slices.DeleteFunc(fields, func(f string) bool { return !known(f) })
		if inner != "" {
			fields = append(fields, inner)
		}
		return fields
	})
	r.add(err)
	if r.other == nil {
		wrong, unread := check(&v), r
		for _, f := range FieldsOf(wrong) {
			if !unread.follows(f.Field) {
				r.add(&rhumb.Error{Kind: kindOfRefusal(wrong), Err: &f})
			}
		}
	}
	return v, under(path, r.err())
}

// under puts the path of a document in a file before the field that a refusal names.
func under(path string, err error) error {
	placed, _ := eachField(err, func(f *FieldError) { f.Key, f.Field = "", join(path, f.Field) })
	return placed
}

// Paths of what a file names, for refusals.
func tenantPath(t rhumb.Tenant) string { return "tenants." + string(t) }

func namespacePath(t rhumb.Tenant, ns rhumb.Namespace) string {
	return tenantPath(t) + ".namespaces." + string(ns)
}

func topicPath(t rhumb.Topic) string {
	return namespacePath(t.Tenant, t.Namespace) + ".topics." + string(t.Name)
}

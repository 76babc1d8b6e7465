package configstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// stepVersions is the version that each step expects of its document: that of the
// plan, or the one that an earlier step stored.
type stepVersions map[string]uint64

// expect refuses to change a document that is not what the plan saw.
func (v *stepVersions) expect(key string, stored Meta) error {
	if want := (*v)[key]; stored.Version != want {
		return changedSince(PlanBase{Key: key, Version: want}, PlanBase{Key: key, Version: stored.Version, By: stored.UpdatedBy, who: stored.Who()})
	}
	return nil
}

// stepsTo gives the documents that differ, in an order in which each may be stored:
// tenants first with all regions that they had or will have, then namespaces and
// topics, then what is taken away, from the leaves up.
func stepsTo(now, next *picture) []PlanStep {
	var steps, last []PlanStep
	byName := func(a, b rhumb.Tenant) int { return cmp.Compare(a, b) }
	for _, name := range slices.SortedFunc(maps.Keys(next.tenants), byName) {
		first, then := tenantSteps(now, next, name)
		steps, last = append(steps, first...), append(last, then...)
	}
	steps = append(steps, namespaceSteps(now, next)...)
	steps = append(steps, topicSteps(now, next)...)
	for _, n := range sortedValues(now.namespaces, func(a, b Namespace) int { return compareKeys(&a, &b) }) {
		if _, stays := next.namespaces[namespaceName{n.Tenant, n.Name}]; !stays {
			steps = append(steps, PlanStep{Kind: "namespace", Name: string(n.Tenant) + "/" + string(n.Name), Action: ActionRemove,
				Changes: fieldChanges(documentFields(true, &n), object{}), run: removeNamespace(n.Tenant, n.Name)})
		}
	}
	steps = append(steps, last...)
	for _, name := range slices.SortedFunc(maps.Keys(now.tenants), byName) {
		if _, stays := next.tenants[name]; !stays {
			t := now.tenants[name]
			steps = append(steps, PlanStep{Kind: "tenant", Name: string(name), Action: ActionRemove,
				Changes: fieldChanges(documentFields(true, &t), object{}), run: removeTenant(name)})
		}
	}
	if steps == nil {
		return []PlanStep{}
	}
	return steps
}

// tenantSteps gives what is to be stored of a tenant before its namespaces change
// and after.
func tenantSteps(now, next *picture, name rhumb.Tenant) (first, then []PlanStep) {
	before, there := now.tenants[name]
	after := next.tenants[name]
	step := func(action Action, was object, t Tenant) PlanStep {
		return PlanStep{Kind: "tenant", Name: string(name), Action: action, Changes: fieldChanges(was, documentFields(true, &t)), run: putTenant(t)}
	}
	if !there {
		return []PlanStep{step(ActionAdd, object{}, after)}, nil
	}
	was, wide := before, after
	wide.AllowedRegions = union(before.AllowedRegions, after.AllowedRegions)
	if sameRegions(wide.AllowedRegions, before.AllowedRegions) {
		wide.AllowedRegions = before.AllowedRegions
	}
	if !sameTenant(&wide, &before) {
		first = append(first, step(ActionChange, documentFields(true, &was), wide))
		was = wide
	}
	if !sameTenant(&was, &after) {
		then = append(then, step(ActionChange, documentFields(true, &was), after))
	}
	return first, then
}

// sameTenant compares what two documents of a tenant mean.
func sameTenant(a, b *Tenant) bool {
	return sameRegions(a.AllowedRegions, b.AllowedRegions) && slices.Equal(a.AdminRoles, b.AdminRoles)
}

// sameRegions compares what two lists of allowed regions mean: their order means
// nothing, and nil is all.
func sameRegions(a, b []rhumb.RegionName) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(r rhumb.RegionName) bool { return !slices.Contains(b, r) })
}

func namespaceSteps(now, next *picture) (steps []PlanStep) {
	for _, n := range sortedValues(next.namespaces, func(a, b Namespace) int { return compareKeys(&a, &b) }) {
		before, there := now.namespaces[namespaceName{n.Tenant, n.Name}]
		changes := fieldChanges(documentFields(there, &before), documentFields(true, &n))
		if there && len(changes) == 0 {
			continue
		}
		step := PlanStep{Kind: "namespace", Name: string(n.Tenant) + "/" + string(n.Name), Action: ActionChange, Changes: changes, run: putNamespace(n)}
		if !there {
			step.Action = ActionAdd
		}
		steps = append(steps, step)
	}
	return steps
}

func topicSteps(now, next *picture) (steps []PlanStep) {
	for _, t := range sortedValues(next.topics, func(a, b Topic) int { return compareKeys(&a, &b) }) {
		before := now.topics[t.Topic]
		changes := fieldChanges(policyFields(&before), policyFields(&t))
		if len(changes) == 0 {
			continue
		}
		step := PlanStep{Kind: "topic", Name: pathOf(t.Topic), Action: ActionChange, Changes: changes, run: putTopicPolicy(t)}
		switch {
		case !before.HasPolicy():
			step.Action = ActionAdd
		case !t.HasPolicy():
			step.Action = ActionRemove
		}
		steps = append(steps, step)
	}
	return steps
}

// pathOf names a topic as its place in a file: TENANT/NAMESPACE/TOPIC.
func pathOf(t rhumb.Topic) string {
	return string(t.Tenant) + "/" + string(t.Namespace) + "/" + string(t.Name)
}

// union gives the regions of both lists; nil, which is all regions, if either is.
func union(a, b []rhumb.RegionName) []rhumb.RegionName {
	if a == nil || b == nil {
		return nil
	}
	out := slices.Clone(b)
	for _, r := range a {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

func putTenant(want Tenant) func(context.Context, *Writer, *stepVersions) error {
	return func(ctx context.Context, w *Writer, v *stepVersions) error {
		t, err := w.PutTenant(ctx, want.Name, func(t *Tenant) error {
			t.AllowedRegions, t.AdminRoles = want.AllowedRegions, want.AdminRoles
			return v.expect(TenantKey(want.Name), t.Meta)
		})
		(*v)[TenantKey(want.Name)] = t.Version
		return err
	}
}

func putNamespace(n Namespace) func(context.Context, *Writer, *stepVersions) error {
	return func(ctx context.Context, w *Writer, v *stepVersions) error {
		_, err := w.PutNamespace(ctx, n.Tenant, n.Name, func(stored *Namespace) error {
			if err := v.expect(NamespaceKey(n.Tenant, n.Name), stored.Meta); err != nil {
				return err
			}
			meta, generation := stored.Meta, stored.Generation
			*stored = n
			stored.Meta, stored.Generation = meta, generation
			return nil
		})
		return err
	}
}

func putTopicPolicy(t Topic) func(context.Context, *Writer, *stepVersions) error {
	return func(ctx context.Context, w *Writer, v *stepVersions) error {
		_, err := w.PutTopic(ctx, t.Topic, func(stored *Topic) error {
			stored.Topology, stored.Retention = t.Topology, t.Retention
			return v.expect(TopicKey(t.Topic), stored.Meta)
		})
		return err
	}
}

func removeNamespace(t rhumb.Tenant, ns rhumb.Namespace) func(context.Context, *Writer, *stepVersions) error {
	return func(ctx context.Context, w *Writer, v *stepVersions) error {
		_, err := w.PutNamespace(ctx, t, ns, func(n *Namespace) error {
			if err := v.expect(NamespaceKey(t, ns), n.Meta); err != nil {
				return err
			}
			return bury(&n.Meta, NamespaceKey(t, ns))
		})
		return err
	}
}

func removeTenant(name rhumb.Tenant) func(context.Context, *Writer, *stepVersions) error {
	return func(ctx context.Context, w *Writer, v *stepVersions) error {
		_, err := w.PutTenant(ctx, name, func(t *Tenant) error {
			if err := v.expect(TenantKey(name), t.Meta); err != nil {
				return err
			}
			return bury(&t.Meta, TenantKey(name))
		})
		return err
	}
}

// documentFields gives what a person says in a document: all but what the store
// adds. Nothing if the document is not there.
func documentFields(there bool, v typed) object {
	if !there {
		return object{}
	}
	o, err := objectOf(v)
	if err != nil {
		return object{} // a document that was read marshals
	}
	for _, k := range []string{"version", "updated_at", "updated_by", "updated_caller", "deleted", "generation"} {
		delete(o, k)
	}
	return o
}

// policyFields gives what a file says in a topic's document.
func policyFields(t *Topic) object {
	o := documentFields(true, &Topic{Topic: t.Topic, Topology: t.Topology, Retention: t.Retention})
	return o
}

// fieldChanges lists the fields that differ, by path; lists are compared whole.
func fieldChanges(before, after object) []FieldChange {
	out := []FieldChange{}
	diffFields("", before, after, &out)
	return out
}

func diffFields(path string, before, after object, out *[]FieldChange) {
	keys := map[string]bool{}
	for k := range before {
		keys[k] = true
	}
	for k := range after {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, isX := before[k].(object)
		y, isY := after[k].(object)
		if (isX || before[k] == nil) && (isY || after[k] == nil) && (isX || isY) && len(x)+len(y) > 0 {
			diffFields(join(path, k), x, y, out)
			continue
		}
		a, b := fieldText(before[k]), fieldText(after[k])
		if !bytes.Equal(a, b) {
			*out = append(*out, FieldChange{join(path, k), a, b})
		}
	}
}

func fieldText(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil // what was parsed marshals
	}
	return text
}

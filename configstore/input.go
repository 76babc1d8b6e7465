package configstore

import (
	"github.com/rhumbmq/rhumb/internal/nearest"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ReadInput reads a document that a person or a program wants to store: [Mesh],
// [Region], [Tenant], [Namespace] or [Topic]. Unlike a stored document it may
// have no field that this version does not know, so that a misspelt one is
// not kept in silence; the refusal has the nearest that there is. Names and Meta are not part of it.
// All that is refused comes at once ([FieldErrors]).
func ReadInput[T any, P pointerTo[T]](data []byte) (T, error) {
	o, err := parseObject(data)
	if err != nil {
		var none T
		return none, rhumb.Errorf(rhumb.KindInvalid, "configstore: %w", err)
	}
	return readObject[T, P](o, nil)
}

// readObject is ReadInput of what was parsed already. Beside its error it gives what
// could be read. top gives the fields that a person may have meant of the document's
// own, nil: all.
func readObject[T any, P pointerTo[T]](o object, top func([]string) []string) (T, error) {
	var v T
	var r refusals
	r.add(writeOut(kindOf(P(&v)), o))
	s := shapeOf[T]()
	unknown, err := o.into(&v, s)
	if err != nil && FieldsOf(err) == nil {
		err = rhumb.Errorf(rhumb.KindInvalid, "configstore: %w", err)
	}
	r.add(err)
	for _, path := range unknown {
		if why, ok := unbuiltFields[kindOf(P(&v))][withoutIndexes(path)]; ok {
			r.add(unbuilt(path, why))
			continue
		}
		beside, name := s.beside(path)
		if top != nil && name == path {
			beside = top(beside)
		}
		r.add(invalid(path, "no such field%s", nearest.Hint(name, beside, func(n *string) string { return *n })))
	}
	return v, r.err()
}

func kindOf(v typed) docKind {
	switch v.(type) {
	case *Region:
		return kindRegion
	case *Tenant:
		return kindTenant
	case *Namespace:
		return kindNamespace
	case *Topic:
		return kindTopic
	}
	return kindMesh
}

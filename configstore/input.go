package configstore

import "github.com/rhumbmq/rhumb/internal/rhumb"

// ReadInput reads a document that a person or a program wants to store: [Mesh],
// [Region], [Tenant], [Namespace] or [Topic]. Unlike a stored document it may
// have no field that this version does not know, so that a misspelt one is
// not kept in silence. Names and Meta are not part of it.
func ReadInput[T any, P pointerTo[T]](data []byte) (T, error) {
	o, err := parseObject(data)
	if err != nil {
		var none T
		return none, rhumb.Errorf(rhumb.KindInvalid, "configstore: %w", err)
	}
	return readObject[T, P](o)
}

// readObject is ReadInput of what was parsed already.
func readObject[T any, P pointerTo[T]](o object) (T, error) {
	var v T
	if err := writeOut(kindOf(P(&v)), o); err != nil {
		return v, err
	}
	unknown, err := o.into(&v, shapeOf[T]())
	if err != nil {
		return v, rhumb.Errorf(rhumb.KindInvalid, "configstore: %w", err)
	}
	if len(unknown) == 0 {
		return v, nil
	}
	if why, ok := unbuiltFields[kindOf(P(&v))][withoutIndexes(unknown[0])]; ok {
		return v, unbuilt(unknown[0], why)
	}
	return v, invalid(unknown[0], "no such field")
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

package configstore

// Limits bound what clients may make in a namespace. What is there already stays, and
// what links bring is not refused: the region where it was made has judged it.
type Limits struct {
	// Partitions is how many partitions all topics of the namespace together may have
	// in a region. nil: as many as the region has room for.
	Partitions *int32 `json:"partitions,omitzero"`
}

// MaxNamespacePartitions bounds the limit itself: more is a mistake.
const MaxNamespacePartitions = 10_000_000

// PartitionLimit gives how many partitions the namespace's topics may have, 0: no limit.
func (n *Namespace) PartitionLimit() int {
	if n.Limits == nil || n.Limits.Partitions == nil {
		return 0
	}
	return int(*n.Limits.Partitions)
}

func (l *Limits) validate() error {
	if l == nil || l.Partitions == nil {
		return nil
	}
	if n := *l.Partitions; n < 1 || n > MaxNamespacePartitions {
		return invalid("limits.partitions", "must be 1 to %d partitions, not %d", MaxNamespacePartitions, n)
	}
	return nil
}

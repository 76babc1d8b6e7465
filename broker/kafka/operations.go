package kafka

// Operations that a caller may do, as bits (KIP-430): read 3, write 4, create 5,
// delete 6, alter 7, describe 8, cluster action 9, describe configs 10, alter
// configs 11, idempotent write 12. Who sees a topic may do all to it.
const (
	topicOperations    = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	nodeOperations     = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	describeOperations = 1 << 8
)

// notGiven stands for a set of operations that was not asked for.
const notGiven = -1 << 31

// operations are those on a topic, if they are asked for.
func operations(asked bool) int32 {
	if asked {
		return topicOperations
	}
	return notGiven
}

// clusterOperations are those on the region, if they are asked for.
func (c *caller) clusterOperations(asked bool) int32 {
	switch {
	case !asked:
		return notGiven
	case c.checkNode() != nil:
		return describeOperations
	}
	return nodeOperations
}

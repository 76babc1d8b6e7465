package dedup

// ChainBefore gives the chain of an origin's log before a batch, from the
// chain after it: the inverse of codec.NextChain. So a log that has dropped its
// beginning still knows the chain at its floor, from the first batch it has.
func ChainBefore(b OriginBatch) uint64 {
	h := unmix(b.Chain) ^ uint64(b.CRC)<<32 ^ uint64(uint32(b.Last-b.First))
	h = unmix(h) ^ uint64(b.First)
	return unmix(h) ^ 0x9e3779b97f4a7c15
}

// unmix is the inverse of the 64-bit finalizer of MurmurHash3: the factors are
// the inverses of its factors modulo 2^64, and x ^ x>>33 is its own inverse.
func unmix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0x9cb4b2f8129337db
	h ^= h >> 33
	h *= 0x4f74430c22a54005
	return h ^ h>>33
}

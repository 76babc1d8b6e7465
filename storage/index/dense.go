package index

import (
	"slices"
	"sort"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// chunkRefs is the length of a dense chunk: what a look-up by origin walks over.
const chunkRefs = 128

// chunk is a run of refs, by base offset, with the vector at its start.
type chunk struct {
	start Vector
	refs  []Ref // only appended to, so a shorter copy of the slice stays valid
}

func (c *chunk) last() rhumb.Offset { return c.refs[len(c.refs)-1].Last() }

// dense is the index of the unsettled tail of one partition. Views share its
// chunks: all but the last are never changed, and of the last they hold a copy.
type dense struct {
	chunks []chunk
	bytes  int64
}

func (d *dense) append(r Ref, at Vector) {
	if n := len(d.chunks); n == 0 || len(d.chunks[n-1].refs) >= chunkRefs {
		d.chunks = append(d.chunks, chunk{start: at.clone()})
	}
	c := &d.chunks[len(d.chunks)-1]
	c.refs = append(c.refs, r)
	d.bytes += int64(r.Size)
}

// dropBelow forgets the refs whose last offset is below start.
func (d *dense) dropBelow(start rhumb.Offset) {
	for len(d.chunks) > 0 && d.chunks[0].last() < start {
		d.bytes -= refBytes(d.chunks[0].refs)
		d.chunks = d.chunks[1:]
	}
	if len(d.chunks) == 0 {
		d.chunks = nil
		return
	}
	c := d.chunks[0]
	n := sort.Search(len(c.refs), func(i int) bool { return c.refs[i].Last() >= start })
	if n == 0 {
		return
	}
	at := c.start.clone()
	for i := range c.refs[:n] {
		at = at.advance(&c.refs[i])
	}
	d.bytes -= refBytes(c.refs[:n])
	d.chunks = slices.Clone(d.chunks) // the old slice may be shared with views
	d.chunks[0] = chunk{start: at, refs: slices.Clone(c.refs[n:])}
}

func refBytes(refs []Ref) (n int64) {
	for i := range refs {
		n += int64(refs[i].Size)
	}
	return n
}

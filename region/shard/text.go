package shard

import (
	"bytes"
	"encoding/binary"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// entryText gathers the data of an entry. Batches are only noted until all of it is
// known, and then copied once, into memory that nobody had to clear for them: clearing it
// costs a third of what the copy does. It is used again from entry to entry.
type entryText struct {
	own   []byte // headers, envelopes, commands
	from  int    // where the part of own begins that is not in parts
	parts [][]byte
}

// begin starts an entry.
func (t *entryText) begin(h entryHeader) {
	t.own, t.from, t.parts = appendEntryHeader(t.own[:0], h), 0, t.parts[:0]
}

// command adds a control command.
func (t *entryText) command(c command) { t.own = appendCommand(t.own, c) }

// put patches a batch and adds it behind its envelope. The batch must not change until end.
func (t *entryText) put(k kind, env *codec.Envelope, batch []byte, base rhumb.Offset, term uint64) {
	codec.PatchBatch(batch, base, int32(term))
	t.own = appendCommandHeader(t.own, k, codec.EnvelopeSize+len(batch))
	at := len(t.own)
	t.own = append(t.own, emptyEnvelope[:]...)
	env.Put(t.own[at:], batch)
	t.cut()
	t.parts = append(t.parts, batch)
}

var emptyEnvelope [codec.EnvelopeSize]byte

// cut notes what was written since the last one. If own moves later, the part stays where
// it is.
func (t *entryText) cut() {
	t.parts = append(t.parts, t.own[t.from:])
	t.from = len(t.own)
}

// maxKeptText is how large own may stay between entries.
const maxKeptText = 256 << 10

// end gives the data of the entry, in memory of its own.
func (t *entryText) end(commands uint32) []byte {
	t.cut()
	binary.LittleEndian.PutUint32(t.parts[0][4:], commands)
	data := bytes.Join(t.parts, nil) // which, unlike make, does not clear what it fills
	clear(t.parts)
	if cap(t.own) > maxKeptText {
		t.own = nil
	}
	return data
}

package api

import "github.com/rhumbmq/rhumb/internal/rhumb"

// DigestQuery asks what a partition's log holds of one origin life.
type DigestQuery struct {
	Topic     rhumb.Topic
	Partition int32
	Log       rhumb.Life         // refuse if the log has another life by now; zero: whatever is there
	Region    rhumb.RegionNumber // of the origin
	Life      rhumb.Life         // of the origin
	From, To  rhumb.Offset       // origin offsets, both inclusive
	Records   bool               // a line for each record too
	Seek      bool               // start at From by the index; else read the log from its start, which finds what is out of place
}

// DigestLine is one line of a digest stream. Exactly one field is set. Lines of
// batches come in the order of the log; with Records, the lines of a batch's
// records follow it. A stream without a last line End or Error was cut off.
type DigestLine struct {
	Batch  *DigestBatch  `json:"batch,omitempty"`
	Record *DigestRecord `json:"record,omitempty"`
	End    *DigestEnd    `json:"end,omitempty"`
	Error  *Error        `json:"error,omitempty"`
}

// DigestBatch describes a stored batch. Batches with equal CRC, Hash, First and
// Last hold the same records.
type DigestBatch struct {
	First rhumb.Offset `json:"first,string"` // at the origin
	Last  rhumb.Offset `json:"last,string"`  // at the origin
	Count int32        `json:"count"`
	CRC   string       `json:"crc"`  // Kafka's batch CRC32C, computed from the bytes
	Hash  string       `json:"hash"` // xxhash64 of the batch after its patched header, from byte 16 on
	// Dropped is how many of its records lie below the log start, in the middle of the
	// batch: they are stored with it and nobody is served them.
	Dropped int32  `json:"dropped,omitempty"`
	Broken  string `json:"broken,omitempty"` // why it or its records cannot be trusted; unreadable records are found only with Records
}

// DigestRecord describes one record. Hash covers timestamp, key, value and
// headers, not how they are compressed or cut into batches.
type DigestRecord struct {
	Offset rhumb.Offset `json:"offset,string"` // at the origin
	Hash   string       `json:"hash"`
	// Dropped says that it lies below the log start: see DigestBatch.
	Dropped bool `json:"dropped,omitempty"`
}

// DigestEnd closes a stream.
type DigestEnd struct {
	Batches int64        `json:"batches,string"`
	Bytes   int64        `json:"bytes,string"`
	LogEnd  rhumb.Offset `json:"log_end,string"` // local offset up to which the log was read
}

package broker

import (
	"io"

	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// zstdWindow is the most that a zstd stream of a producer may refer back to.
const zstdWindow = 8 << 20

// eachStamp calls fn for each record of a batch that CheckBatch accepted, until
// fn gives an error. It holds no more of the batch than a window of the codec,
// except that a raw snappy block is expanded as a whole. More bytes than
// ExpandLimit are of kind too large, records that do not parse of kind corrupt.
func (b *Broker) eachStamp(batch []byte, fn func(codec.Stamp) error) error {
	b.expand <- struct{}{}
	defer func() { <-b.expand }()
	records, err := b.expander.Open(batch)
	if err != nil {
		return err
	}
	defer records.Close()
	for {
		stamp, err := records.NextStamp()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(stamp)
		}
		if err != nil {
			return err
		}
	}
}

// checkRecords looks at each record: offsets follow each other, the content
// parses, and in a compacted topic each has a key.
func (b *Broker) checkRecords(batch []byte, keys bool) error {
	want := int64(0)
	return b.eachStamp(batch, func(r codec.Stamp) error {
		if r.Delta != want {
			return rhumb.Errorf(rhumb.KindInvalid, "record %d of the batch has offset delta %d", want, r.Delta)
		}
		if keys && !r.HasKey {
			return rhumb.Errorf(rhumb.KindInvalid, "record %d of the batch has no key, which a compacted topic needs", want)
		}
		want++
		return nil
	})
}

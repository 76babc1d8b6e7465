package region

import (
	"log/slog"
	"time"

	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage"
)

// Config says what one node of a region needs.
type Config struct {
	// Name and Number are the region's, from the configuration store. Required.
	Name   rhumb.RegionName
	Number rhumb.RegionNumber
	// Store holds the node's data. Whoever opened it runs and closes it: before
	// the region starts, and after it has stopped. Required.
	Store *storage.Store
	// Shards is the number of data shards. It was fixed when the store was made;
	// 0 takes the store's, another number than that is refused.
	Shards int
	Logger *slog.Logger // default: none

	// Durability is the store's. What leaves the region is flushed whatever it says.
	Durability storage.Durability

	// InFlight is how many bytes of batches may be between requests and answers on
	// this node; what exceeds it is refused with kind unavailable. Default 256 MiB.
	InFlight int64
	// RetentionInterval is how often partitions are looked at for old batches and
	// forgotten producers. Default 1 min.
	RetentionInterval time.Duration
	// CompactionInterval is how often the store is told how partitions are compacted,
	// and looks which are worth it. Default 15 s, as in Kafka.
	CompactionInterval time.Duration
	// RetentionMs and RetentionBytes are for topics that say nothing of their own.
	// Default 7 days and no limit; negative means no limit.
	RetentionMs    int64
	RetentionBytes int64
	// NamespaceRetention gives what a topic's namespace says in place of RetentionMs
	// and RetentionBytes; nil for what it leaves to the region, negative for no
	// limit. Default: nothing. It is asked at each look and must not block.
	NamespaceRetention func(rhumb.Topic) (ms, bytes *int64)
	// HoldForLinks is how long records that retention would drop are kept for regions
	// that lack them, if their namespace does not say. Default 1 day; negative: not at
	// all.
	HoldForLinks time.Duration
	// HoldShare is how much of the disk, in percent, records so kept may take.
	// Default 20.
	HoldShare int
	// NamespaceBacklog gives what a topic's namespace says of that, nil for nothing.
	// Default: nothing. It is asked at each look and must not block.
	NamespaceBacklog func(rhumb.Topic) *configstore.Backlog
	// NodeID is this node's id in the eyes of Kafka clients, which settings of this
	// node go by. Default: the region's number * 1000.
	NodeID int32
	// PartitionLimit bounds the partitions of all topics. Default 100,000.
	PartitionLimit int
	// ProducerExpiry is after how long without a batch a producer id's table is
	// forgotten. Default 1 day, as in Kafka.
	ProducerExpiry time.Duration
}

// DefaultPartitionLimit is the default of Config.PartitionLimit: what a node
// opens within seconds and holds in some hundred MB.
const DefaultPartitionLimit = 100_000

const (
	defaultRetention      = 7 * 24 * time.Hour
	defaultProducerExpiry = 24 * time.Hour
	defaultHold           = 24 * time.Hour
	defaultHoldShare      = 20
)

func (c *Config) setDefaults() error {
	if c.Store == nil {
		return rhumb.Errorf(rhumb.KindInvalid, "region: config needs a store")
	}
	if err := c.Name.Validate(); err != nil {
		return err
	}
	if err := c.Number.Validate(); err != nil {
		return err
	}
	if n := c.Store.Shards(); c.Shards != 0 && c.Shards != n {
		return rhumb.Errorf(rhumb.KindInvalid, "region: %d shards, the store was made with %d", c.Shards, n)
	} else if c.Shards = n; n < 1 {
		return rhumb.Errorf(rhumb.KindInvalid, "region: the store has no data shard")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RetentionInterval <= 0 {
		c.RetentionInterval = time.Minute
	}
	if c.CompactionInterval <= 0 {
		c.CompactionInterval = 15 * time.Second
	}
	if c.RetentionMs == 0 {
		c.RetentionMs = defaultRetention.Milliseconds()
	}
	if c.RetentionBytes == 0 {
		c.RetentionBytes = -1
	}
	if c.HoldForLinks == 0 {
		c.HoldForLinks = defaultHold
	}
	if c.HoldShare <= 0 {
		c.HoldShare = defaultHoldShare
	}
	if c.NodeID == 0 {
		c.NodeID = int32(c.Number) * 1000
	}
	if c.PartitionLimit <= 0 {
		c.PartitionLimit = DefaultPartitionLimit
	}
	if c.ProducerExpiry <= 0 {
		c.ProducerExpiry = defaultProducerExpiry
	}
	return nil
}

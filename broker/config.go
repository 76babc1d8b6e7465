package broker

import (
	"fmt"
	"log/slog"

	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// Defaults of Config.
const (
	DefaultMaxMessageBytes = topicconf.DefaultMaxMessage // Kafka's message.max.bytes
	DefaultPartitions      = 1
	DefaultMaxPartitions   = 10000
	DefaultExpandLimit     = 128 << 20
)

// Config says how a broker works.
type Config struct {
	// Region stores everything. Required.
	Region Region
	// Logger gets a line for what an operator would note. Default: none.
	Logger *slog.Logger
	// Policy decides which topics may exist here. Default: all may.
	Policy Policy
	// Names is what the mesh knows of topics. Default: a region alone.
	Names Names
	// NoAutoCreate turns off the creation of topics that a client asks for.
	NoAutoCreate bool
	// Partitions of a topic whose creator does not say. Default 1.
	Partitions int32
	// MaxPartitions of one topic. Default 10,000.
	MaxPartitions int32
	// MaxMessageBytes bounds a batch as it travels, where the topic does not
	// say. Default 1,048,588, as in Kafka.
	MaxMessageBytes int
	// ExpandLimit bounds how many bytes of one batch are looked at when it has
	// to be decompressed. Default 128 MiB.
	ExpandLimit int64
	// Groups says how consumer groups work; its Store and Logger are the broker's.
	Groups groups.Config
}

// Validate checks the fields against each other.
func (c Config) Validate() error {
	switch {
	case c.Region == nil:
		return rhumb.Errorf(rhumb.KindInvalid, "broker: no region")
	case c.Partitions < 0 || c.MaxPartitions < 0 || c.MaxMessageBytes < 0 || c.ExpandLimit < 0:
		return rhumb.Errorf(rhumb.KindInvalid, "broker: negative limit")
	case c.MaxPartitions > 0 && c.Partitions > c.MaxPartitions:
		return rhumb.Errorf(rhumb.KindInvalid, "broker: %d partitions by default, at most %d", c.Partitions, c.MaxPartitions)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Partitions = orDefault(c.Partitions, DefaultPartitions)
	c.MaxPartitions = orDefault(c.MaxPartitions, DefaultMaxPartitions)
	c.MaxMessageBytes = orDefault(c.MaxMessageBytes, DefaultMaxMessageBytes)
	c.ExpandLimit = orDefault(c.ExpandLimit, DefaultExpandLimit)
	return c
}

func orDefault[T int | int32 | int64](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Broker serves the topics of one region to clients. Its methods may be called
// from any goroutine.
type Broker struct {
	cfg      Config
	region   Region
	log      *slog.Logger
	static   map[string]string // settings of nodes by the configuration
	defaults settings          // of a topic for which nothing else is said
	expander *codec.Expander
	expand   chan struct{} // as many tokens as batches may be decompressed at once
	groups   *groups.Coordinator

	producers producers
	room      room
}

// maxExpanding bounds batches that are decompressed at the same time: each may
// hold a window of the codec in memory.
const maxExpanding = 4

// New builds a broker; it starts nothing.
func New(cfg Config) (*Broker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("new broker: %w", err)
	}
	cfg = cfg.withDefaults()
	cfg.Groups.Store, cfg.Groups.Logger = cfg.Region, cfg.Logger
	coordinator, err := groups.New(cfg.Groups)
	if err != nil {
		return nil, fmt.Errorf("new broker: %w", err)
	}
	static := cfg.staticConfigs()
	return &Broker{
		static:   static,
		defaults: readSettings(topicconf.Layers{Static: static}),
		cfg:      cfg,
		region:   cfg.Region,
		log:      cfg.Logger.With("component", "broker"),
		expander: codec.NewExpander(codec.Limits{Bytes: cfg.ExpandLimit, Window: zstdWindow}),
		expand:   make(chan struct{}, maxExpanding),
		groups:   coordinator,
	}, nil
}

// ClusterID is the Kafka cluster id of the region.
func (b *Broker) ClusterID() rhumb.UUID { return b.region.ClusterID() }

// MaxPartitions is the largest number of partitions that a topic may have.
func (b *Broker) MaxPartitions() int32 { return b.cfg.MaxPartitions }

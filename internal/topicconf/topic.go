package topicconf

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Names of topic settings that have an effect.
const (
	CleanupPolicy   = "cleanup.policy"
	CompressionType = "compression.type"
	DeleteRetention = "delete.retention.ms"
	DirtyRatio      = "min.cleanable.dirty.ratio"
	MaxCompaction   = "max.compaction.lag.ms"
	MinCompaction   = "min.compaction.lag.ms"
	MaxMessage      = "max.message.bytes"
	TimestampAfter  = "message.timestamp.after.max.ms"
	TimestampBefore = "message.timestamp.before.max.ms"
	TimestampType   = "message.timestamp.type"
	RetentionBytes  = "retention.bytes"
	RetentionMs     = "retention.ms"
	Validate        = "validate" // Rhumb's own
)

// Values of cleanup.policy and message.timestamp.type.
const (
	Compact       = "compact"
	Delete        = "delete"
	CreateTime    = "CreateTime"
	LogAppendTime = "LogAppendTime"
)

// Defaults that others need as numbers.
const (
	DefaultMaxMessage      = 1048588
	DefaultRetentionMs     = 7 * 24 * 3600 * 1000
	DefaultTimestampAfter  = 3600 * 1000
	DefaultTimestampBefore = math.MaxInt64
)

var most = strconv.FormatInt(math.MaxInt64, 10)

// topicDefs is sorted by name.
var topicDefs = []Def{
	{Name: CleanupPolicy, Type: List, Default: Delete, Node: "log.cleanup.policy", Effect: true, words: []string{Compact, Delete},
		Doc: "What happens to old records: delete drops what retention says, compact keeps the last record of each key, both do both."},
	{Name: "compression.gzip.level", Type: Int, Default: "-1", Node: "compression.gzip.level", low: -1, high: 9, check: gzipLevel,
		Doc: "Kept. Nothing is compressed by the region."},
	{Name: "compression.lz4.level", Type: Int, Default: "9", Node: "compression.lz4.level", low: 1, high: 17, Doc: "Kept. Nothing is compressed by the region."},
	{Name: CompressionType, Type: String, Default: "producer", Node: CompressionType, Effect: true, check: onlyProducer,
		words: []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
		Doc:   "Batches are stored as the producer compressed them; no other value is accepted."},
	{Name: "compression.zstd.level", Type: Int, Default: "3", Node: "compression.zstd.level", low: -131072, high: 22, Doc: "Kept. Nothing is compressed by the region."},
	{Name: DeleteRetention, Type: Long, Default: "86400000", Node: "log.cleaner.delete.retention.ms", Effect: true,
		Doc: "How long the marker of a deleted key stays in a compacted topic, in ms."},
	{Name: "file.delete.delay.ms", Type: Long, Default: "60000", Node: "log.segment.delete.delay.ms", Doc: "Kept. Topics have no files of their own."},
	{Name: "flush.messages", Type: Long, Default: most, Node: "log.flush.interval.messages", low: 1, Doc: "Kept. When a write is flushed is the region's durability."},
	{Name: "flush.ms", Type: Long, Default: most, Doc: "Kept. When a write is flushed is the region's durability."},
	{Name: "follower.replication.throttled.replicas", Type: List, check: throttledReplicas, Doc: "Kept. Replicas inside a region are not throttled."},
	{Name: "index.interval.bytes", Type: Int, Default: "4096", Node: "log.index.interval.bytes", Doc: "Kept. The index has an entry for each batch."},
	{Name: "leader.replication.throttled.replicas", Type: List, check: throttledReplicas, Doc: "Kept. Replicas inside a region are not throttled."},
	{Name: "local.retention.bytes", Type: Long, Default: "-2", Node: "log.local.retention.bytes", low: -2, Doc: "Kept. Nothing is tiered."},
	{Name: "local.retention.ms", Type: Long, Default: "-2", Node: "log.local.retention.ms", low: -2, Doc: "Kept. Nothing is tiered."},
	{Name: MaxCompaction, Type: Long, Default: most, Node: "log.cleaner.max.compaction.lag.ms", Effect: true, low: 1,
		Doc: "After how long a record of a compacted topic is compacted at the latest, in ms."},
	{Name: MaxMessage, Type: Int, Default: strconv.Itoa(DefaultMaxMessage), Node: "message.max.bytes", Effect: true,
		Doc: "Largest batch that a producer may send, in bytes, as it travels."},
	{Name: TimestampAfter, Type: Long, Default: strconv.Itoa(DefaultTimestampAfter), Node: "log.message.timestamp.after.max.ms", Effect: true,
		Doc: "How far in the future a producer's timestamp may lie, in ms."},
	{Name: TimestampBefore, Type: Long, Default: most, Node: "log.message.timestamp.before.max.ms", Effect: true,
		Doc: "How far in the past a producer's timestamp may lie, in ms."},
	{Name: TimestampType, Type: String, Default: CreateTime, Node: "log.message.timestamp.type", Effect: true, words: []string{CreateTime, LogAppendTime},
		Doc: "Whether timestamps are the producer's or the time at which the region took the batch."},
	{Name: DirtyRatio, Type: Double, Default: "0.5", Node: "log.cleaner.min.cleanable.ratio", Effect: true, high: 1,
		Doc: "Share of a partition's bytes that no compaction has seen from which on it is compacted; only closed log files count."},
	{Name: MinCompaction, Type: Long, Default: "0", Node: "log.cleaner.min.compaction.lag.ms", Effect: true,
		Doc: "For how long a record of a compacted topic is not compacted, in ms."},
	{Name: "min.insync.replicas", Type: Int, Default: "1", Node: "min.insync.replicas", low: 1, Doc: "Kept. A write is answered when a majority of the replicas has it."},
	{Name: "preallocate", Type: Bool, Default: "false", Node: "log.preallocate", Doc: "Kept. The commit log is always preallocated."},
	{Name: "remote.log.copy.disable", Type: Bool, Default: "false", Doc: "Kept. Nothing is tiered."},
	{Name: "remote.log.delete.on.disable", Type: Bool, Default: "false", Doc: "Kept. Nothing is tiered."},
	{Name: "remote.storage.enable", Type: Bool, Default: "false", check: noTiers, Doc: "Nothing is tiered in this version; only false is accepted."},
	{Name: RetentionBytes, Type: Long, Default: "-1", Node: "log.retention.bytes", Effect: true, low: math.MinInt64,
		Doc: "How many bytes of a partition are kept, in this region; -1 for all."},
	{Name: RetentionMs, Type: Long, Default: strconv.Itoa(DefaultRetentionMs), Node: "log.retention.ms", Unset: true, Effect: true, low: -1,
		Doc: "How long records are kept in this region, in ms; -1 for ever."},
	{Name: "segment.bytes", Type: Int, Default: "1073741824", Node: "log.segment.bytes", low: 1048576, Doc: "Kept. Topics have no files of their own."},
	{Name: "segment.index.bytes", Type: Int, Default: "10485760", Node: "log.index.size.max.bytes", low: 4, Doc: "Kept. Topics have no files of their own."},
	{Name: "segment.jitter.ms", Type: Long, Default: "0", Doc: "Kept. Topics have no files of their own."},
	{Name: "segment.ms", Type: Long, Default: "604800000", low: 1, Doc: "Kept. Topics have no files of their own."},
	{Name: "unclean.leader.election.enable", Type: Bool, Default: "false", Node: "unclean.leader.election.enable", Doc: "Kept. A leader is never elected that lacks what was answered."},
	{Name: Validate, Type: String, Default: "header", Effect: true, Hidden: true, words: []string{"header", "full"},
		Doc: "Rhumb's own: header checks batches by their headers, full looks at each record."},
}

func gzipLevel(value string) string {
	if strings.TrimSpace(value) == "0" {
		return "Value must be between 1 and 9 or equal to -1"
	}
	return ""
}

func onlyProducer(value string) string {
	if strings.TrimSpace(value) != "producer" {
		return "Batches are stored as producers compressed them, so only producer is supported here"
	}
	return ""
}

func noTiers(value string) string {
	if v, _ := parseBool(value); v {
		return "Tiered storage is not supported here"
	}
	return ""
}

var throttled = regexp.MustCompile(`^[0-9]+:[0-9]+$`)

func throttledReplicas(value string) string {
	words := Words(value)
	if len(words) == 1 && words[0] == "*" {
		return ""
	}
	for _, word := range words {
		if !throttled.MatchString(word) {
			return "Must be * or a list of partition:node,partition:node,..."
		}
	}
	return ""
}

// TopicDefs gives all settings of topics, sorted by name. The list is shared: read only.
func TopicDefs() []Def { return topicDefs }

// Topic finds a setting of topics, nil if there is none of that name.
func Topic(name string) *Def { return find(topicDefs, name) }

func find(defs []Def, name string) *Def {
	i, ok := slices.BinarySearchFunc(defs, name, func(d Def, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil
	}
	return &defs[i]
}

// CheckTopic checks the settings of a topic that are named: whether each is known
// and has a legal value, and whether all of them go together.
func CheckTopic(configs map[string]string, names ...string) error {
	slices.Sort(names) // so that equal requests have equal answers
	for _, name := range names {
		d := Topic(name)
		if d == nil {
			return rhumb.Errorf(rhumb.KindInvalid, "Unknown topic config name: %s", name)
		}
		if value, ok := configs[name]; ok {
			if err := d.Check(value); err != nil {
				return err
			}
		}
	}
	low, high := Number(configs[MinCompaction], 0), Number(configs[MaxCompaction], math.MaxInt64)
	if low > high {
		return rhumb.Errorf(rhumb.KindInvalid, "conflict topic config setting %s (%d) > %s (%d)", MinCompaction, low, MaxCompaction, high)
	}
	return nil
}

package topicconf

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// ownNodeDefs are the settings of nodes that are not the default of a topic's.
// None of them changes at run time.
var ownNodeDefs = []Def{
	{Name: "advertised.listeners", Type: List, Unset: true, Doc: "Addresses that clients are told."},
	{Name: "authorizer.class.name", Type: String, Doc: "Who may do what is the mesh's policy; there are no Kafka ACLs."},
	{Name: "auto.create.topics.enable", Type: Bool, Default: "true", Doc: "Whether a topic is made when a client first asks for it. kafka.auto_create of the region's file."},
	{Name: "auto.leader.rebalance.enable", Type: Bool, Default: "true", Doc: "The region places leaders itself."},
	{Name: "broker.id", Type: Int, Default: "-1", low: -1, Doc: "Number of this node: region number * 1000 + n."},
	{Name: "broker.rack", Type: String, Unset: true, Doc: "Name of the region."},
	{Name: "connections.max.idle.ms", Type: Long, Default: "600000", Doc: "After how long a silent connection is closed, in ms."},
	{Name: "default.replication.factor", Type: Int, Default: "1", Doc: "Replicas of a topic inside the region."},
	{Name: "delete.topic.enable", Type: Bool, Default: "true", Doc: "Topics can be deleted."},
	{Name: "fetch.max.bytes", Type: Int, Default: "57671680", Doc: "Largest answer to a fetch, in bytes."},
	{Name: "group.initial.rebalance.delay.ms", Type: Int, Default: "3000", Doc: "How long an empty group waits for more members, in ms."},
	{Name: "group.max.session.timeout.ms", Type: Int, Default: "1800000", Doc: "Longest session timeout of a group's member, in ms."},
	{Name: "group.max.size", Type: Int, Default: "2147483647", Doc: "Most members of a group."},
	{Name: "group.min.session.timeout.ms", Type: Int, Default: "6000", Doc: "Shortest session timeout of a group's member, in ms."},
	{Name: "inter.broker.listener.name", Type: String, Unset: true, Doc: "Nodes do not talk to each other by the Kafka protocol."},
	{Name: "listeners", Type: List, Unset: true, Doc: "Addresses that are listened on."},
	{Name: "log.cleaner.enable", Type: Bool, Default: "true", Doc: "Compacted topics are compacted."},
	{Name: "log.dir", Type: String, Unset: true, Doc: "Directory of all that the region stores on this node."},
	{Name: "log.dirs", Type: String, Unset: true, Doc: "Directory of all that the region stores on this node."},
	{Name: "log.retention.check.interval.ms", Type: Long, Default: "300000", Doc: "How often topics are looked at for old records, in ms."},
	{Name: "log.retention.hours", Type: Int, Default: "168", Doc: "How long records are kept, in hours, if log.retention.ms does not say."},
	{Name: "log.retention.minutes", Type: Int, Unset: true, Doc: "Not used: log.retention.ms says."},
	{Name: "max.connections", Type: Int, Default: "2147483647", Doc: "Most open client connections of this node. limits.connections of the region's file."},
	{Name: "max.connections.per.ip", Type: Int, Default: "2147483647", Doc: "Most open client connections of one address."},
	{Name: "max.incremental.fetch.session.cache.slots", Type: Int, Default: "1000", Doc: "Most fetch sessions of this node."},
	{Name: "max.request.partition.size.limit", Type: Int, Default: "2000", Doc: "Most partitions in one answer of DescribeTopicPartitions."},
	{Name: "node.id", Type: Int, Default: "-1", low: -1, Doc: "Number of this node: region number * 1000 + n."},
	{Name: "num.partitions", Type: Int, Default: "1", Doc: "Partitions of a topic whose creator does not say. kafka.partitions of the region's file."},
	{Name: "offset.metadata.max.bytes", Type: Int, Default: "4096", Doc: "Longest note that a commit may carry, in bytes."},
	{Name: "offsets.retention.minutes", Type: Int, Default: "10080", Doc: "How long the positions of an empty group are kept, in minutes."},
	{Name: "process.roles", Type: List, Default: "broker,controller", Doc: "Every node answers what a controller is asked."},
	{Name: "producer.id.expiration.ms", Type: Int, Default: "86400000", Doc: "After how long without a batch an idempotent producer is forgotten, in ms."},
	{Name: "remote.log.storage.system.enable", Type: Bool, Default: "false", Doc: "Nothing is tiered in this version."},
	{Name: "request.timeout.ms", Type: Int, Default: "30000", Doc: "How long an administrative request may take, in ms."},
	{Name: "socket.request.max.bytes", Type: Int, Default: "104857600", Doc: "Largest request, in bytes. limits.request_bytes of the region's file."},
}

var nodeDefs = makeNodeDefs()

func makeNodeDefs() []Def {
	defs := slices.Clone(ownNodeDefs)
	for _, t := range topicDefs {
		if t.Node == "" {
			continue
		}
		d := t
		d.Name, d.Node = t.Node, t.Node
		d.Dynamic = t.Effect && t.Name != CompressionType
		d.Doc = "For topics that do not say: " + t.Name + ". " + t.Doc
		defs = append(defs, d)
	}
	slices.SortFunc(defs, func(a, b Def) int { return strings.Compare(a.Name, b.Name) })
	return defs
}

// NodeDefs gives all settings of nodes, sorted by name. The list is shared: read only.
func NodeDefs() []Def { return nodeDefs }

// Node finds a setting of nodes, nil if there is none of that name.
func Node(name string) *Def { return find(nodeDefs, name) }

// NodeAll gives what the layers say of a node's setting, the one that holds
// first; nothing if it is not set and has no default.
func (l Layers) NodeAll(d *Def) []Value {
	var out []Value
	for _, layer := range [...]struct {
		values map[string]string
		from   Source
	}{{l.Node, FromNode}, {l.Region, FromRegion}, {l.Static, FromStatic}} {
		if v, ok := layer.values[d.Name]; ok {
			out = append(out, Value{d.Name, v, layer.from})
		}
	}
	if len(out) > 0 {
		out = append(out, coarser(d.Name)...)
	}
	if !d.Unset {
		out = append(out, Value{d.Name, d.Default, FromDefault})
	}
	return out
}

// CheckNode checks settings of nodes that are to be changed at run time: only
// those that have an effect can be.
func CheckNode(configs map[string]string, names ...string) error {
	slices.Sort(names)
	var fixed []string
	for _, name := range names {
		if d := Node(name); d == nil || !d.Dynamic {
			fixed = append(fixed, name)
		}
	}
	if len(fixed) > 0 {
		return rhumb.Errorf(rhumb.KindInvalid, "Cannot update these configs dynamically: [%s]", strings.Join(fixed, ", "))
	}
	for _, name := range names {
		if value, ok := configs[name]; ok {
			if err := Node(name).Check(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Static makes a layer of what a region's file says, without what is as the
// table has it.
func Static(values map[string]string) map[string]string {
	out := map[string]string{}
	for name, v := range values {
		if d := Node(name); d != nil && (d.Unset || d.Default != v) {
			out[name] = v
		}
	}
	return out
}

// Names by which nodes know how long records are kept.
const (
	retentionNode = "log.retention.ms"
	hoursNode     = "log.retention.hours"
)

// Milliseconds writes a retention of the region's file as its static setting:
// the default is not said, since log.retention.hours says it.
func Milliseconds(ms int64) map[string]string {
	if ms == DefaultRetentionMs {
		return nil
	}
	return map[string]string{retentionNode: strconv.FormatInt(max(ms, -1), 10)}
}

package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// resource names what has settings.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// Answers to who would set what has no settings here.
var (
	errGroupConfig  = withCode(codeInvalidConfig, "groups have no settings of their own in this version")
	errMetricConfig = withCode(codeInvalidRequest, "clients are not asked for metrics in this version")
	errLogLevel     = withCode(codeInvalidRequest, "the log level is the region's: log.level of its file")
	errNoDefault    = withCode(codeInvalidRequest, "Default topic resources are not allowed.")
)

// alterable finds out whether the caller may change the settings of a resource:
// of a topic, of a node, or of all nodes if the name is empty.
func (s *Server) alterable(who *caller, of resource) error {
	switch of.kind {
	case kmsg.ConfigResourceTypeTopic:
		if of.name == "" {
			return errNoDefault
		}
		_, err := who.parseTopic(of.name)
		return err
	case kmsg.ConfigResourceTypeBroker:
		if _, err := s.nodeNamed(of.name); err != nil {
			return err
		}
		return who.checkNode()
	case kmsg.ConfigResourceTypeBrokerLogger:
		return errLogLevel
	case kmsg.ConfigResourceTypeClientMetrics:
		return errMetricConfig
	case kmsg.ConfigResourceTypeGroupConfig:
		return errGroupConfig
	}
	return withCode(codeInvalidRequest, fmt.Sprintf("Unknown resource type %d", of.kind))
}

// nodeNamed reads the name of a node, which must be this one; all says that the
// name is empty and stands for all nodes.
func (s *Server) nodeNamed(name string) (all bool, err error) {
	if name == "" {
		return true, nil
	}
	id, err := strconv.ParseInt(name, 10, 32)
	switch {
	case err != nil:
		return false, withCode(codeInvalidRequest, "Broker id must be an integer, but it is: "+name)
	case int32(id) != s.cfg.NodeID:
		return false, withCode(codeInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d or empty string, but received %d", s.cfg.NodeID, id))
	}
	return false, nil
}

// once finds resources that a request names more than once.
func once[T any](list []T, of func(*T) resource) map[resource]bool {
	seen, twice := map[resource]bool{}, map[resource]bool{}
	for i := range list {
		r := of(&list[i])
		twice[r] = seen[r]
		seen[r] = true
	}
	return twice
}

var errTwice = withCode(codeInvalidRequest, "Each resource must appear at most once.")

// change makes a change of what a client asks for. A value must be there unless
// the setting is deleted.
func change(name string, op int8, value *string) (broker.ConfigChange, error) {
	c := broker.ConfigChange{Name: name, Op: broker.ConfigOp(op)}
	if value != nil {
		c.Value = *value
	} else if c.Op != broker.ConfigDelete {
		return c, withCode(codeInvalidRequest, "Null value not supported for : "+name)
	}
	return c, nil
}

// protocol is Kafka's word for what a listener speaks.
func (l Listener) protocol() string {
	switch {
	case l.SASL != nil && l.TLS != nil:
		return "SASL_SSL"
	case l.SASL != nil:
		return "SASL_PLAINTEXT"
	case l.TLS != nil:
		return "SSL"
	}
	return "PLAINTEXT"
}

// facts are the settings of this node that the server knows.
func (s *Server) facts(c *conn) map[string]string {
	id := strconv.Itoa(int(s.cfg.NodeID))
	host, port := c.address()
	facts := map[string]string{
		"advertised.listeners":    c.at.protocol() + "://" + net.JoinHostPort(host, strconv.Itoa(int(port))),
		"broker.id":               id,
		"connections.max.idle.ms": strconv.FormatInt(s.cfg.IdleTimeout.Milliseconds(), 10),
		"fetch.max.bytes":         strconv.Itoa(s.cfg.FetchMaxBytes),
		"listeners":               c.at.protocol() + "://" + c.at.ln.Addr().String(),
		"max.connections":         strconv.Itoa(min(s.cfg.MaxConnections, math.MaxInt32)),
		"max.incremental.fetch.session.cache.slots": strconv.Itoa(s.cfg.MaxSessions),
		"node.id":                  id,
		"socket.request.max.bytes": strconv.Itoa(s.cfg.MaxRequest),
	}
	if s.cfg.Rack != "" {
		facts["broker.rack"] = s.cfg.Rack
	}
	if s.cfg.MaxPerAddress > 0 {
		facts["max.connections.per.ip"] = strconv.Itoa(s.cfg.MaxPerAddress)
	}
	if disk, err := s.broker.Disk(); err == nil {
		facts["log.dir"], facts["log.dirs"] = disk.Dir, disk.Dir
	}
	return facts
}

// rootLogger is the only logger of a node.
const rootLogger = "root"

// rootLogger shows the level of the node's log in Kafka's words.
func (s *Server) rootLogger() broker.ConfigEntry {
	level := "ERROR"
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
		if s.cfg.Logger.Enabled(context.Background(), l) {
			level = l.String()
			break
		}
	}
	return broker.ConfigEntry{Name: rootLogger, Value: &level, ReadOnly: true, Source: topicconf.FromStatic, Doc: "log.level of the region's file."}
}

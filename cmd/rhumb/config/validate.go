package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/replicator/fec"
)

// Validate checks all fields, alone and together. The configuration must be
// complete, as Load and Parse make it.
func (c *Config) Validate() error {
	for _, check := range []func() error{c.checkRegion, c.checkStore, c.checkDisk, c.checkLimits, c.checkLog, c.checkKafka, c.checkGroups, c.checkAdmin, c.checkListeners, c.checkLinks} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkRegion() error {
	if c.Region.Name == "" {
		return refuse("region.name", "is required")
	}
	if err := c.Region.Name.Validate(); err != nil {
		return refuse("region.name", "%v", err)
	}
	if c.Region.Number > rhumb.MaxRegionNumber {
		return refuse("region.number", "must be 0 (given by the store) or 1 to %d, not %d", rhumb.MaxRegionNumber, c.Region.Number)
	}
	return nil
}

func (c *Config) checkDisk() error {
	if c.DataDir == "" {
		return refuse("data_dir", "is required")
	}
	if err := oneOf("log_writes", string(c.LogWrites), string(LogWritesAuto), string(LogWritesCached), string(LogWritesDirect)); err != nil {
		return err
	}
	if err := oneOf("durability", string(c.Durability), string(DurabilityFsync), string(DurabilityInterval), string(DurabilityNone)); err != nil {
		return err
	}
	for _, r := range []numberRange{
		{"flush_interval", int64(c.FlushInterval), int64(time.Millisecond), int64(time.Minute), durationText},
		{"shards", int64(c.Shards), 1, 1024, numberText},
		{"min_free.percent", int64(c.MinFree.Percent), 0, 50, numberText},
		{"min_free.bytes", int64(c.MinFree.Bytes), 0, 1 << 50, bytesText},
		{"shutdown_grace", int64(c.ShutdownGrace), 0, int64(10 * time.Minute), durationText},
	} {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkLinks() error {
	seen := map[rhumb.RegionName]bool{}
	for i, l := range c.Links {
		at := "links[" + strconv.Itoa(i) + "]"
		if err := l.Region.Validate(); err != nil {
			return refuse(at+".region", "%v", err)
		}
		if l.Region == c.Region.Name {
			return refuse(at+".region", "%s is this region itself", l.Region)
		}
		if seen[l.Region] {
			return refuse(at+".region", "%s stands twice", l.Region)
		}
		seen[l.Region] = true
		if l.Via == "" && l.FEC == "" {
			return refuse(at, "says nothing: give via or fec")
		}
		if l.Via != "" {
			if _, err := checkAddress(at+".via", l.Via, false); err != nil {
				return err
			}
		}
		if _, err := fec.ParseMode(l.FEC); err != nil {
			return refuse(at+".fec", "%v", err)
		}
	}
	return nil
}

// leastIs names the fields whose value is the least of another one.
var leastIs = map[string]string{
	"limits.request_memory": "limits.request_bytes", "limits.response_memory": "kafka.message_max_bytes",
	"limits.append_memory": "kafka.message_max_bytes", "limits.link_memory": "limits.link_window",
	"limits.link_window": "kafka.message_max_bytes", "limits.link_receive": "kafka.message_max_bytes",
	"limits.group_memory": "groups.max_bytes", "limits.offset_memory": "groups.max_offset_bytes",
}

func (c *Config) checkLimits() error {
	l := &c.Limits
	const most = 1 << 40
	for _, r := range []numberRange{
		{"limits.request_bytes", int64(l.RequestBytes), 64 << 10, 1 << 30, bytesText},
		{"limits.request_memory", int64(l.RequestMemory), int64(l.RequestBytes), most, bytesText},
		{"limits.response_memory", int64(l.ResponseMemory), int64(c.Kafka.MessageMaxBytes), most, bytesText},
		{"limits.append_memory", int64(l.AppendMemory), int64(c.Kafka.MessageMaxBytes), most, bytesText},
		{"limits.tail_cache", int64(l.TailCache), 0, most, bytesText},
		{"limits.read_cache", int64(l.ReadCache), 0, most, bytesText},
		{"limits.link_memory", int64(l.LinkMemory), int64(l.LinkWindow), most, bytesText},
		{"limits.link_window", int64(l.LinkWindow), int64(c.Kafka.MessageMaxBytes), most, bytesText},
		{"limits.link_receive", int64(l.LinkReceive), int64(c.Kafka.MessageMaxBytes), most, bytesText},
		{"limits.link_connections", int64(l.LinkConns), 1, 64, numberText},
		{"limits.state_memtable", int64(l.StateMemtable), 1 << 20, 1 << 32, bytesText},
		{"limits.state_cache", int64(l.StateCache), 0, most, bytesText},
		{"limits.log_file", int64(l.LogFile), 1 << 20, 1 << 30, bytesText},
		{"limits.compaction_keys", int64(l.CompactionKeys), 128 << 10, most, bytesText},
		{"limits.compaction_rate", int64(l.CompactionRate), 64 << 10, most, bytesText},
		{"limits.disk_reserve", int64(l.DiskReserve), 0, most, bytesText},
		{"limits.partitions", int64(l.Partitions), 1, 10_000_000, numberText},
		{"limits.group_memory", int64(l.GroupMemory), int64(c.Groups.MaxBytes), most, bytesText},
		{"limits.offset_memory", int64(l.OffsetMemory), int64(c.Groups.MaxOffsetBytes), most, bytesText},
		{"limits.group_lag_series", int64(l.GroupLagSeries), 0, 1_000_000, numberText},
		{"limits.connections", int64(l.Connections), 1, 1 << 20, numberText},
		{"limits.connections_per_address", int64(l.ConnectionsPerAddress), 0, 1 << 20, numberText},
		{"limits.connection_rate", int64(l.ConnectionRate), 0, 1 << 20, numberText},
	} {
		if err := r.check(); err != nil {
			return err
		}
	}
	if l.Memory == 0 {
		return nil
	}
	return numberRange{"limits.memory", int64(l.Memory), leastMemory, most, bytesText}.check()
}

func (c *Config) checkLog() error {
	if err := oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error"); err != nil {
		return err
	}
	return oneOf("log.format", c.Log.Format, "auto", "text", "json")
}

func (c *Config) checkGroups() error {
	g := &c.Groups
	for _, r := range []numberRange{
		{"retention.hold_for_links", int64(c.Retention.HoldForLinks), 0, int64(100 * 365 * day), durationText},
		{"retention.hold_share", int64(c.Retention.HoldShare), 1, 80, numberText},
		{"groups.initial_rebalance_delay", int64(g.InitialRebalanceDelay), 0, int64(5 * time.Minute), durationText},
		{"groups.min_session_timeout", int64(g.MinSessionTimeout), int64(time.Millisecond), int64(g.MaxSessionTimeout), durationText},
		{"groups.max_session_timeout", int64(g.MaxSessionTimeout), int64(time.Millisecond), int64(day), durationText},
		{"groups.max_members", int64(g.MaxMembers), 1, 100_000, numberText},
		{"groups.max_bytes", int64(g.MaxBytes), 1 << 10, 12 << 20, bytesText},
		{"groups.max_offset_bytes", int64(g.MaxOffsetBytes), 64 << 10, 1 << 32, bytesText},
		{"groups.offsets_retention", int64(g.OffsetsRetention), -1, int64(100 * 365 * day), durationText},
	} {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkKafka() error {
	k := &c.Kafka
	for _, r := range []numberRange{
		{"kafka.partitions", int64(k.Partitions), 1, 10_000, numberText},
		{"kafka.message_max_bytes", int64(k.MessageMaxBytes), 1 << 10, int64(c.Limits.RequestBytes), bytesText},
		{"kafka.idle_timeout", int64(k.IdleTimeout), int64(time.Second), int64(day), durationText},
		{"kafka.failed_login_delay", int64(k.FailedLogin), int64(time.Millisecond), int64(10 * time.Second), durationText},
		{"kafka.retention", int64(k.Retention), -1, int64(100 * 365 * day), durationText},
		{"kafka.retention_bytes", int64(k.RetentionBytes), -1, 1 << 60, bytesText},
	} {
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkListeners() error {
	if len(c.Listeners) > 64 {
		return refuse("listeners", "has %d, at most 64 are allowed", len(c.Listeners))
	}
	geo := 0
	names, binds := map[string]bool{}, map[string]bool{}
	for i := range c.Listeners {
		l, at := &c.Listeners[i], "listeners["+strconv.Itoa(i)+"]"
		if err := oneOf(at+".protocol", l.Protocol, ProtocolKafka, ProtocolAdmin, ProtocolGeo); err != nil {
			return err
		}
		if l.Name == "" || len(l.Name) > 64 || strings.ContainsFunc(l.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return refuse(at+".name", "must be 1 to 64 visible ASCII characters")
		}
		if names[l.Name] {
			return refuse(at+".name", "%q stands twice", l.Name)
		}
		names[l.Name] = true
		network := "tcp "
		if l.Protocol == ProtocolGeo {
			network = "udp "
			if geo++; geo > 1 {
				return refuse(at+".protocol", "one geo listener is enough: links of all regions share its socket")
			}
		}
		if _, port, _ := net.SplitHostPort(l.Bind); port != "0" {
			if binds[network+l.Bind] {
				return refuse(at+".bind", "%s is bound by another listener", l.Bind)
			}
			binds[network+l.Bind] = true
		}
		if err := c.checkListener(l, at); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkListener(l *Listener, at string) error {
	host, err := checkAddress(at+".bind", l.Bind, true)
	if err != nil {
		return err
	}
	if l.Advertise == "" && l.Protocol != ProtocolAdmin && !strings.HasSuffix(l.Bind, ":0") {
		return refuse(at+".advertise", "is required, because bind %s is every address", l.Bind)
	}
	if l.Advertise != "" {
		if _, err := checkAddress(at+".advertise", l.Advertise, false); err != nil {
			return err
		}
	}
	switch t := l.TLS; {
	case t == nil && l.Protocol == ProtocolGeo:
		return refuse(at+".tls", "is required for geo: give ca, cert and key")
	case t == nil:
	case t.Cert == "" || t.Key == "":
		return refuse(at+".tls", "needs cert and key")
	case t.CA == "" && l.Protocol == ProtocolGeo:
		return refuse(at+".tls.ca", "is required for geo")
	}
	if err := l.checkClients(at); err != nil {
		return err
	}
	if l.Protocol == ProtocolAdmin && !isLoopback(host) && c.Admin.Token == "" && len(c.Admin.Tokens) == 0 && (l.TLS == nil || l.TLS.CA == "") {
		return refuse(at+".bind", "%s is not loopback: set admin.token_file or admin.tokens, or tls.ca for client certificates", l.Bind)
	}
	return nil
}

// isLoopback reports whether only this host can reach the address. A name is
// not looked up: only localhost is known to be.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkAddress checks host:port; a bind address may lack the host or have port 0.
func checkAddress(path, addr string, bind bool) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	n, perr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || perr != nil || len(host) > 253:
		return "", refuse(path, "%q must be host:port, such as 127.0.0.1:9092 or [::1]:9092", addr)
	case !bind && (host == "" || n == 0):
		return "", refuse(path, "%q needs a host and a port", addr)
	case !bind && net.ParseIP(host) != nil && net.ParseIP(host).IsUnspecified():
		return "", refuse(path, "%q is every address: nobody can connect to that", addr)
	}
	return host, nil
}

func oneOf(path, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return refuse(path, "must be %s, not %q", strings.Join(allowed, ", "), value)
}

// numberRange is a field with its bounds, both inclusive.
type numberRange struct {
	path           string
	value, low, hi int64
	text           func(int64) string
}

func (r numberRange) check() error {
	if other := leastIs[r.path]; r.value < r.low && other != "" {
		return &fieldError{path: r.path, cause: other, reason: fmt.Sprintf("must be at least what %s is, %s, not %s", other, r.text(r.low), r.text(r.value))}
	}
	if r.value < r.low || r.value > r.hi {
		return refuse(r.path, "must be %s to %s, not %s", r.text(r.low), r.text(r.hi), r.text(r.value))
	}
	return nil
}

func numberText(n int64) string   { return strconv.FormatInt(n, 10) }
func bytesText(n int64) string    { return Bytes(n).String() }
func durationText(n int64) string { return Duration(n).String() }

package config

import (
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// LogWrites says how large pieces of the log are written.
type LogWrites string

// The kinds of writes.
const (
	LogWritesAuto   LogWrites = "auto"   // direct where a trial at start says that it pays, else cached
	LogWritesCached LogWrites = "cached" // through the page cache
	LogWritesDirect LogWrites = "direct" // past it, and what was written so is read so
)

// Durability says when a write is answered.
type Durability string

// The kinds of durability.
const (
	DurabilityFsync    Durability = "fsync"    // after the flush: survives power loss
	DurabilityInterval Durability = "interval" // after the write; flushed every flush_interval
	DurabilityNone     Durability = "none"     // after the write; flushed when the system likes
)

// Protocols of listeners.
const (
	ProtocolKafka = "kafka"
	ProtocolAdmin = "admin"
	ProtocolGeo   = "geo"
)

// Config is the file of one region. The doc tags are the reference.
type Config struct {
	Region        Region      `yaml:"region"`
	DataDir       string      `yaml:"data_dir" doc:"Directory of everything that the region stores. It belongs to one region of one mesh for ever."`
	Durability    Durability  `yaml:"durability" doc:"When a write is answered: fsync (flushed to disk), interval (flushed every flush_interval; a power loss takes what was answered since), none."`
	LogWrites     LogWrites   `yaml:"log_writes" doc:"How the log is written on Linux: auto (direct on ext4 and XFS if a trial in data_dir works at start, else cached; the log and rhumb_storage_log_direct tell which), cached (through the system's page cache), direct (pieces of 64KiB and more past it, where the file system does that, and large reads of them as well, by way of limits.read_cache: a third less CPU time for writing, but who reads what limits.tail_cache does not hold waits for the disk). It may be changed with each start."`
	FlushInterval Duration    `yaml:"flush_interval" doc:"How often durability interval flushes. 1ms to 1m."`
	Shards        int         `yaml:"shards" doc:"Data shards (Raft groups) of the region. Fixed when the data directory is made. 1 to 1024."`
	ConfigStore   ConfigStore `yaml:"config_store"`
	Listeners     []Listener  `yaml:"listeners" doc:"Where clients and other regions connect; several per protocol are allowed, but one of geo. Giving the list replaces the default one: kafka, admin on their default ports on loopback, and no geo."`
	Links         []Link      `yaml:"links,omitempty" doc:"What differs from the rule, link by link. A region that is not named is dialled at the geo addresses of its document."`
	Limits        Limits      `yaml:"limits"`
	MinFree       MinFree     `yaml:"min_free"`
	ShutdownGrace Duration    `yaml:"shutdown_grace" doc:"How long SIGTERM waits for what is in flight. At most 10m."`
	Log           Log         `yaml:"log"`
	Kafka         Kafka       `yaml:"kafka"`
	Groups        Groups      `yaml:"groups"`
	Retention     Retention   `yaml:"retention"`
	Admin         Admin       `yaml:"admin"`
}

// Region names the region.
type Region struct {
	Name   rhumb.RegionName   `yaml:"name" doc:"Name of the region in the mesh: [a-z][a-z0-9-]{0,31}. Required."`
	Number rhumb.RegionNumber `yaml:"number" doc:"Region number, 1 to 32767. 0: the configuration store gives one. Another value must be the region's, or above every number ever given."`
}

// ConfigStore says where the mesh's documents are.
type ConfigStore struct {
	Embedded *EmbeddedStore `yaml:"embedded,omitempty"`
	Consul   *ConsulStore   `yaml:"consul,omitempty"`
}

// EmbeddedStore is a directory that the regions of one host share.
type EmbeddedStore struct {
	Path string `yaml:"path" doc:"Directory of the embedded configuration store. All regions of one host that name it are one mesh. Empty: config-store in data_dir, for a region alone."`
}

// ConsulStore is the key-value store of a Consul. What the file leaves open comes
// from the environment that Consul's own tools read.
type ConsulStore struct {
	Address    string     `yaml:"address" doc:"Consul's HTTP API: host:port, http://…, https://… or unix:///path; best an agent on this host. Empty: CONSUL_HTTP_ADDR, else 127.0.0.1:8500. With tls, host:port means https."`
	TokenFile  string     `yaml:"token_file" doc:"File that holds the ACL token; read again when it changes. Empty: CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN. docs/first-mesh.md has the policy that it needs."`
	TLS        *ConsulTLS `yaml:"tls,omitempty"`
	Datacenter string     `yaml:"datacenter" doc:"Consul datacenter that keeps the documents. Consul does not replicate keys between its datacenters: all regions of a mesh name the same one. Empty: the agent's own."`
	Namespace  string     `yaml:"namespace" doc:"Namespace of Consul Enterprise. Empty: CONSUL_NAMESPACE."`
	Partition  string     `yaml:"partition" doc:"Admin partition of Consul Enterprise. Empty: CONSUL_PARTITION."`
	Prefix     string     `yaml:"prefix" doc:"Put before the keys rhumb/v1/…, so that several meshes share a Consul. All regions of a mesh name the same one."`
	Services   string     `yaml:"services" doc:"register: the listeners are services rhumb-kafka and rhumb-admin of the agent at address, with health checks, for as long as the region runs. off: not. Empty: register."`
}

// Values of ConsulStore.Services.
const (
	ServicesRegister = "register"
	ServicesOff      = "off"
)

// ConsulTLS names the files of an HTTPS connection to Consul. They may be replaced
// while the region runs.
type ConsulTLS struct {
	CA         string `yaml:"ca" doc:"PEM file of CAs that sign Consul's certificate. Empty: CONSUL_CACERT, else the system's."`
	Cert       string `yaml:"cert" doc:"PEM file of the own certificate, if Consul asks for one. Empty: CONSUL_CLIENT_CERT."`
	Key        string `yaml:"key" doc:"PEM file of its key. Empty: CONSUL_CLIENT_KEY."`
	ServerName string `yaml:"server_name" doc:"Name in Consul's certificate. Empty: CONSUL_TLS_SERVER_NAME, else the host of the address."`
}

// Listener is one address that the region listens on.
type Listener struct {
	Name      string `yaml:"name" doc:"Name in logs and metrics, unique in the list. Empty: the protocol."`
	Protocol  string `yaml:"protocol" doc:"kafka, admin (HTTP: API, metrics, health) or geo (QUIC over UDP, from other regions). Required."`
	Bind      string `yaml:"bind" doc:"host:port to bind; [::1]:9092 for IPv6; an empty host is every address. Empty: the protocol's default port on loopback."`
	Advertise string `yaml:"advertise" doc:"host:port that clients or other regions are told. Empty: bind, with the port that was bound if it says 0; required for kafka and geo if bind is every address."`
	TLS       *TLS   `yaml:"tls,omitempty"`
	SASL      *SASL  `yaml:"sasl,omitempty"`
	// Namespace and MaxConnections are of Kafka listeners.
	Namespace      string `yaml:"namespace,omitempty" doc:"kafka, without sasl and tls.ca: the tenant/namespace that clients are in; they reach no other. Empty: bare names are of public/default, and full names reach every namespace."`
	MaxConnections int    `yaml:"max_connections,omitempty" doc:"kafka: open connections of this listener; more are closed at once. 0: as many as limits.connections."`
}

// SASL says how clients of a Kafka listener log in.
type SASL struct {
	Mechanisms []string `yaml:"mechanisms,omitempty" doc:"Of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. PLAIN sends the password, so it needs tls unless bind is loopback. Empty: all that are allowed."`
	Session    Duration `yaml:"session,omitempty" doc:"How long a login lasts before the client has to log in again on its connection (connections.max.reauth.ms). 0: for ever. At least 1s."`
}

// TLS names certificate files. They may be replaced while the region runs.
type TLS struct {
	CA   string `yaml:"ca" doc:"PEM file of trusted CAs. geo: required. admin and kafka: clients must show a certificate that one of them signed; without sasl it says who a Kafka client is."`
	Cert string `yaml:"cert" doc:"PEM file of the own certificate. Required."`
	Key  string `yaml:"key" doc:"PEM file of its key. Required."`
}

// Link is what this region does differently on the link to one other region.
type Link struct {
	Region rhumb.RegionName `yaml:"region" doc:"The other region. Required."`
	Via    string           `yaml:"via,omitempty" doc:"host:port (UDP) that is dialled instead of the region's geo addresses: a relay, or a path through NAT. Empty: those."`
	FEC    string           `yaml:"fec,omitempty" doc:"Forward error correction of what is sent there: auto (as strong as the measured losses ask for, nothing on a clean line), off, or DATA+PARITY packets such as 20+4 (up to 64+32). Empty: auto."`
}

// Limits are the budgets in bytes of one node, and a few counts.
type Limits struct {
	Memory         Bytes `yaml:"memory" doc:"Memory that the process may take, 256MiB at least: budgets that the file leaves at their defaults are made to fit, and near it memory is collected harder. 0: GOMEMLIMIT, else the memory limit of the control group; without either, no limit."`
	RequestBytes   Bytes `yaml:"request_bytes" doc:"Largest Kafka request. Above it the connection is closed."`
	RequestMemory  Bytes `yaml:"request_memory" doc:"Kafka requests in memory, over all connections; at the limit reading waits."`
	ResponseMemory Bytes `yaml:"response_memory" doc:"Fetched data on its way to clients, over all connections; at the limit fetches wait."`
	AppendMemory   Bytes `yaml:"append_memory" doc:"Batches between a request or a link and the log; at the limit producers get a retriable error and links push back."`
	TailCache      Bytes `yaml:"tail_cache" doc:"Newest batches kept in memory, over all partitions."`
	ReadCache      Bytes `yaml:"read_cache" doc:"Blocks of the log that were read past the page cache, for all readers (log_writes: direct, or auto that chose it). 0: old data are read through the page cache."`
	LinkMemory     Bytes `yaml:"link_memory" doc:"Data sent on links and not confirmed, over all links."`
	LinkWindow     Bytes `yaml:"link_window" doc:"Data sent and not confirmed, of one partition on one link."`
	LinkReceive    Bytes `yaml:"link_receive" doc:"Received data of links that is not yet in the log, over all links."`
	LinkConns      int   `yaml:"link_connections" doc:"QUIC connections of one link at most, 1 to 64; more than one are used while they bring more, on long and lossy paths. The lower number of the two regions counts."`
	StateMemtable  Bytes `yaml:"state_memtable" doc:"Write buffer of the state database."`
	StateCache     Bytes `yaml:"state_cache" doc:"Block cache of the state database."`
	LogFile        Bytes `yaml:"log_file" doc:"Size of one commit log file. 1MiB to 1GiB."`
	CompactionKeys Bytes `yaml:"compaction_keys" doc:"Table of keys of the compaction that runs; 1MiB holds about 12,000. A partition with more takes several passes."`
	CompactionRate Bytes `yaml:"compaction_rate" doc:"How much compaction reads a second at most; it writes no more."`
	DiskReserve    Bytes `yaml:"disk_reserve" doc:"Preallocated space for what must still be written on a full disk."`
	Partitions     int   `yaml:"partitions" doc:"Partitions of all topics of the region; at the limit no topic is made or grown (POLICY_VIOLATION for Kafka clients), by clients or by links."`
	GroupMemory    Bytes `yaml:"group_memory" doc:"What members of consumer groups say and are assigned, over all groups; at the limit new members get a retriable error."`
	OffsetMemory   Bytes `yaml:"offset_memory" doc:"Committed offsets of consumer groups, over all groups, about 300 bytes each; at the limit new ones are refused (INVALID_COMMIT_OFFSET_SIZE)."`
	GroupLagSeries int   `yaml:"group_lag_series" doc:"Series of rhumb_group_lag at one scrape at most, one for each group and partition. 0: none."`
	Connections    int   `yaml:"connections" doc:"Open client connections, over all Kafka listeners; more are closed at once."`

	ConnectionsPerAddress int `yaml:"connections_per_address" doc:"Open client connections from one address, over all Kafka listeners; more are closed at once. 0: no limit of its own."`
	ConnectionRate        int `yaml:"connection_rate" doc:"Connections that a Kafka listener takes per second; more wait in the system's queue. 0: no limit."`
}

// MinFree is the free space below which writes are refused.
type MinFree struct {
	Percent int   `yaml:"percent" doc:"Part of the disk that stays free, 0 to 50."`
	Bytes   Bytes `yaml:"bytes" doc:"Bytes that stay free at least. The larger of the two counts."`
}

// Log says how the process logs.
type Log struct {
	Level  string `yaml:"level" doc:"debug, info, warn or error."`
	Format string `yaml:"format" doc:"text, json, or auto: text on a terminal, else json."`
}

// Kafka holds the defaults of topics that Kafka clients make, and how long their
// connections may rest.
type Kafka struct {
	AutoCreate      bool     `yaml:"auto_create" doc:"A topic is made when a client first asks for it."`
	Partitions      int32    `yaml:"partitions" doc:"Partitions of a topic that does not say. 1 to 10000."`
	MessageMaxBytes Bytes    `yaml:"message_max_bytes" doc:"Largest batch that a producer may send (max.message.bytes of a topic overrides it)."`
	Retention       Duration `yaml:"retention" doc:"How long records are kept if neither topic nor namespace says, also where they bound only the size. -1: no limit."`
	IdleTimeout     Duration `yaml:"idle_timeout" doc:"A connection that sends nothing for this long is closed (connections.max.idle.ms). 1s to 1d."`
	FailedLogin     Duration `yaml:"failed_login_delay" doc:"How long a failed login waits for its answer (connection.failed.authentication.delay.ms). 1ms to 10s."`
	RetentionBytes  Bytes    `yaml:"retention_bytes" doc:"How much a partition keeps if neither topic nor namespace says. -1: no limit."`
}

// Groups says how consumer groups work.
type Groups struct {
	InitialRebalanceDelay Duration `yaml:"initial_rebalance_delay" doc:"How long a group that was empty waits for more members before it assigns partitions (Kafka's group.initial.rebalance.delay.ms). rhumb dev: 0. At most 5m."`
	MinSessionTimeout     Duration `yaml:"min_session_timeout" doc:"Shortest session timeout that a member may ask for (group.min.session.timeout.ms)."`
	MaxSessionTimeout     Duration `yaml:"max_session_timeout" doc:"Longest session timeout that a member may ask for (group.max.session.timeout.ms). At most 1d."`
	MaxMembers            int      `yaml:"max_members" doc:"Members of one group (group.max.size); more are refused."`
	MaxBytes              Bytes    `yaml:"max_bytes" doc:"What the members of one group may say and be assigned, in all. At most 12MiB."`
	MaxOffsetBytes        Bytes    `yaml:"max_offset_bytes" doc:"What the committed offsets of one group may take in memory, about 300 bytes each; more are refused (INVALID_COMMIT_OFFSET_SIZE)."`
	OffsetsRetention      Duration `yaml:"offsets_retention" doc:"How long committed offsets are kept after the group became empty, or its members stopped reading the topic (offsets.retention.minutes). -1: for ever."`
}

// Retention says how long retention waits for other regions. How long records are
// kept at all is in kafka, in namespaces and in topics.
type Retention struct {
	HoldForLinks Duration `yaml:"hold_for_links" doc:"How long records that retention would drop are kept for regions that lack them (a namespace's backlog.hold overrides it). 0: not at all."`
	HoldShare    int      `yaml:"hold_share" doc:"Percent of the disk that records so kept may take. 1 to 80."`
}

// Admin guards the HTTP API.
type Admin struct {
	Token        string             `yaml:"token" doc:"Bearer token of an admin of the HTTP API, at least 16 bytes. Empty: none. Without any token, and without tls.ca at the listener, whoever reaches it is an admin."`
	TokenFile    string             `yaml:"token_file" doc:"File that holds the token instead; white space at its end is ignored. It may be replaced while the region runs."`
	Tokens       []AdminToken       `yaml:"tokens,omitempty" doc:"More tokens, of people and programs that may do less."`
	Certificates []AdminCertificate `yaml:"certificates,omitempty" doc:"Roles of client certificates, for admin listeners with tls.ca. The first rule that fits counts; without one, the role that rhumb certs issue --client --role wrote into the certificate, else none."`
	Hosts        []string           `yaml:"hosts,omitempty" doc:"Names by which clients reach the HTTP API, besides IP addresses, localhost and the host of advertise. Others are refused."`
}

// AdminToken is a token with a role.
type AdminToken struct {
	Name      string `yaml:"name" doc:"Who it is given to, for the audit lines. Required."`
	Role      string `yaml:"role" doc:"viewer (states, figures, documents), operator (topics, records, links, too) or admin. Required."`
	TokenFile string `yaml:"token_file" doc:"File that holds the token, at least 16 bytes. It may be replaced while the region runs; while it is gone nobody has the token. Required."`
}

// AdminCertificate gives a role to client certificates. One of CN, OU and SAN is set.
type AdminCertificate struct {
	CN   string `yaml:"cn,omitempty" doc:"The subject's common name: NAME in what rhumb certs issue NAME --client makes."`
	OU   string `yaml:"ou,omitempty" doc:"One of the subject's organizational units."`
	SAN  string `yaml:"san,omitempty" doc:"One of the subject's alternative names: a DNS name, a URI, an e-mail or an IP address."`
	Role string `yaml:"role" doc:"tenant, viewer, operator or admin. Required."`
}

// Defaults gives the configuration of an empty file. It lacks region.name and
// data_dir, which have no default.
func Defaults() Config {
	return Config{
		Durability:    DurabilityFsync,
		LogWrites:     LogWritesAuto,
		FlushInterval: Duration(100 * time.Millisecond),
		Shards:        16,
		ConfigStore:   ConfigStore{Embedded: &EmbeddedStore{}},
		Listeners: []Listener{
			{Name: ProtocolKafka, Protocol: ProtocolKafka, Bind: defaultBind(ProtocolKafka)},
			{Name: ProtocolAdmin, Protocol: ProtocolAdmin, Bind: defaultBind(ProtocolAdmin)},
		},
		Limits: Limits{
			RequestBytes:   100 << 20,
			RequestMemory:  256 << 20,
			ResponseMemory: 256 << 20,
			AppendMemory:   128 << 20,
			TailCache:      64 << 20,
			ReadCache:      32 << 20,
			CompactionKeys: 32 << 20,
			CompactionRate: 32 << 20,
			LinkMemory:     256 << 20,
			LinkWindow:     16 << 20,
			LinkReceive:    128 << 20,
			LinkConns:      64,
			StateMemtable:  8 << 20,
			StateCache:     8 << 20,
			LogFile:        64 << 20,
			DiskReserve:    16 << 20,
			Partitions:     100_000,
			GroupMemory:    64 << 20,
			OffsetMemory:   128 << 20,
			GroupLagSeries: 10_000,
			Connections:    10_000,

			ConnectionsPerAddress: 2_500,
			ConnectionRate:        2_000,
		},
		MinFree:       MinFree{Percent: 5, Bytes: 1 << 30},
		ShutdownGrace: Duration(30 * time.Second),
		Log:           Log{Level: "info", Format: "auto"},
		Kafka: Kafka{
			AutoCreate: true, Partitions: 1, MessageMaxBytes: 1048588,
			Retention: Duration(7 * 24 * time.Hour), RetentionBytes: -1,
			IdleTimeout: Duration(10 * time.Minute), FailedLogin: Duration(100 * time.Millisecond),
		},
		Retention: Retention{HoldForLinks: Duration(24 * time.Hour), HoldShare: 20},
		Groups: Groups{
			InitialRebalanceDelay: Duration(3 * time.Second), MinSessionTimeout: Duration(6 * time.Second), MaxSessionTimeout: Duration(30 * time.Minute),
			MaxMembers: 1000, MaxBytes: 8 << 20, MaxOffsetBytes: 16 << 20, OffsetsRetention: Duration(7 * 24 * time.Hour),
		},
	}
}

package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/groups"
	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/configstore"
	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/region"
	"github.com/rhumbmq/rhumb/storage"
	"github.com/rhumbmq/rhumb/storage/vfs"
)

// open opens the parts one after the other and starts each before the next
// needs it.
func (s *Server) open(ctx context.Context) error {
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{stepCerts, s.openCerts},
		{"addresses", s.bindChosen},
		{stepDir, s.makeDataDir},
		{stepStore, s.openView},
		{stepTrust, s.checkCertificate},
		{stepStorage, s.openStorage},
		{stepRegister, s.register},
		{"region", s.openRegion},
		{"leadership of the region's shards", s.waitReady},
		{"broker", s.openBroker},
		{"topics that the mesh has deleted", s.catchUp},
		{"consumer groups", s.openGroups},
		{"links", s.openLinks},
		{"HTTP listeners", s.openAdmin},
		{stepRegister, s.followDocument},
		{"Kafka listeners", s.openKafka},
		{"services", s.openServices},
	} {
		if err := step.do(ctx); err != nil {
			return s.advise(step.what, err)
		}
	}
	return nil
}

func (s *Server) makeDataDir(context.Context) error { return vfs.MakeDir(s.opts.FS, s.cfg.DataDir) }

func (s *Server) openView(ctx context.Context) error {
	keeper := s.opts.Keeper
	if keeper == nil {
		keeper = configstore.FileKeeper(filepath.Join(s.cfg.DataDir, "config.json"))
	}
	kept, err := keeper.Load()
	if err != nil {
		return err
	}
	s.room.kept = kept != nil
	store, err := s.openStore(kept == nil)
	if err != nil {
		return err
	}
	mesh := s.certifiedMesh()
	s.room.view, err = configstore.OpenView(ctx, configstore.ViewConfig{
		Store: store, Keeper: keeper, Mesh: mesh, CreateMesh: s.opts.Store == nil && mesh.IsZero(), By: s.writer(), Logger: s.log,
	})
	if err != nil {
		return err
	}
	s.parts.start("configuration view", s.room.view.Run, nil)
	return nil
}

// writer names this region in the documents that it writes.
func (s *Server) writer() string { return "region " + string(s.cfg.Region.Name) }

func (s *Server) openStorage(context.Context) error {
	l := s.cfg.Limits
	store, err := storage.Open(storage.Config{
		FS: s.opts.FS, Dir: s.cfg.DataDir, Mesh: s.room.view.Mesh().UUID, Shards: s.cfg.Shards,
		Durability: durabilities[s.cfg.Durability], FlushInterval: s.cfg.FlushInterval.Std(),
		Direct: s.cfg.LogWrites != config.LogWritesCached, ProbeDirect: s.cfg.LogWrites == config.LogWritesAuto,
		FileSize: int64(l.LogFile), TailCache: int64(l.TailCache), ReadCache: orNone(int64(l.ReadCache)),
		StateCache: int64(l.StateCache), StateMemTable: int64(l.StateMemtable),
		CompactKeys: int64(l.CompactionKeys), CompactRate: int64(l.CompactionRate),
		MinFree: s.minFree(), Reserve: orNone(int64(l.DiskReserve)),
		Events: s.storageEvents(),
	})
	if err != nil {
		return err
	}
	s.room.store = store
	s.onClose(store.Close)
	s.parts.start("storage", store.Run, nil)
	return nil
}

var durabilities = map[config.Durability]storage.Durability{
	config.DurabilityFsync: storage.DurabilityFsync, config.DurabilityInterval: storage.DurabilityInterval, config.DurabilityNone: storage.DurabilityNone,
}

// orNone turns a configured zero, which means none, into storage's word for it.
func orNone(v int64) int64 {
	if v == 0 {
		return -1
	}
	return v
}

// register makes the store know this region as it is now. With the store down,
// a region that has been registered before starts from its last good copy.
func (s *Server) register(ctx context.Context) error {
	data, _ := s.room.store.Identity()
	doc := configstore.Region{
		Name: s.cfg.Region.Name, Number: s.cfg.Region.Number, DataUUID: data,
		Addresses: map[string][]string{}, State: configstore.RegionActive,
	}
	for _, l := range s.cfg.Listeners {
		addr := advertised(l)
		switch {
		case addr == "": // bound to every address: nobody can be told which to use
		case l.Protocol == config.ProtocolGeo:
			doc.Geo = append(doc.Geo, addr)
		default:
			doc.Addresses[l.Protocol] = append(doc.Addresses[l.Protocol], addr)
		}
	}
	if err := s.checkAlone(ctx, &doc); err != nil {
		return err
	}
	s.room.said = doc
	known, isKnown := s.room.view.Region(doc.Name)
	if isKnown && doc.Number != 0 && doc.Number != known.Number {
		return rhumb.Errorf(rhumb.KindInvalid, "region.number: region %s has number %d, not %d, and keeps it for ever: leave the line out, or write the number that it has",
			doc.Name, known.Number, doc.Number)
	}
	stored, err := s.room.view.Writer(s.writer()).RegisterRegion(ctx, doc, s.highestNumber())
	switch {
	case err == nil:
		s.room.self = stored
		if err := s.room.view.Refresh(ctx); err != nil { // so that the next start knows it, with the store away
			s.log.Warn("what was registered is not in the last good copy yet", "err", err)
		}
		return nil
	case s.wasRemoved(data):
		return s.removedError(data)
	case isKnown && known.DataUUID == data && !refusal(err):
		s.log.Warn("configuration store is not reachable, going on with the last good copy", "err", err)
		s.room.self = known
		return nil
	}
	return err
}

// followDocument begins to look whether the document stays this region's own.
func (s *Server) followDocument(context.Context) error {
	s.parts.start("registration", s.watchDocument, nil)
	s.parts.start("standing", s.followStanding, nil)
	return nil
}

// refusal tells a store that says no from one that does not answer.
func refusal(err error) bool {
	k := rhumb.KindOf(err)
	return errors.Is(err, configstore.ErrOtherData) || errors.Is(err, configstore.ErrOthers) || errors.Is(err, configstore.ErrRemoved) || k == rhumb.KindInvalid
}

// advertised gives the address that others are told, "" if there is none.
func advertised(l config.Listener) string {
	if l.Advertise != "" {
		return l.Advertise
	}
	host, port, err := net.SplitHostPort(l.Bind)
	ip := net.ParseIP(host)
	if err != nil || host == "" || port == "0" || ip != nil && ip.IsUnspecified() {
		return ""
	}
	return l.Bind
}

func (s *Server) listeners(protocol string) []config.Listener {
	return slices.DeleteFunc(slices.Clone(s.cfg.Listeners), func(l config.Listener) bool { return l.Protocol != protocol })
}

func (s *Server) openRegion(context.Context) error {
	k := s.cfg.Kafka
	r, err := region.Open(region.Config{
		Name: s.cfg.Region.Name, Number: s.room.self.Number, Store: s.room.store, Logger: s.opts.Logger, // it adds the region's name itself
		Durability: durabilities[s.cfg.Durability], InFlight: int64(s.cfg.Limits.AppendMemory),
		RetentionMs: retentionMs(k.Retention), RetentionBytes: int64(k.RetentionBytes), NamespaceRetention: s.namespaceRetention,
		HoldForLinks: time.Duration(orNone(int64(s.cfg.Retention.HoldForLinks))), HoldShare: s.cfg.Retention.HoldShare, NamespaceBacklog: s.namespaceBacklog,
		NodeID: nodeID(s.room.self.Number, 0), PartitionLimit: s.cfg.Limits.Partitions,
	})
	if err != nil {
		return err
	}
	s.room.region = r
	s.onClose(r.Close)
	s.parts.start("region", r.Run, nil)
	return nil
}

// minFree gives the bytes that stay free: the larger of both settings.
func (s *Server) minFree() int64 {
	least := int64(s.cfg.MinFree.Bytes)
	if usage, err := s.opts.FS.DiskUsage(s.cfg.DataDir); err == nil {
		least = max(least, int64(usage.Total/100)*int64(s.cfg.MinFree.Percent))
	}
	return orNone(least)
}

func (s *Server) openBroker(context.Context) error {
	mesh := broker.Mesh{View: s.room.view, Self: s.cfg.Region.Name}
	k := s.cfg.Kafka
	b, err := broker.New(broker.Config{
		Region: s.room.region, Logger: s.log, Policy: mesh, Names: mesh,
		NoAutoCreate: !k.AutoCreate, Partitions: k.Partitions, MaxMessageBytes: int(k.MessageMaxBytes),
		Groups: s.groups(),
	})
	if err != nil {
		return err
	}
	s.room.broker = b
	s.applyStanding()
	return nil
}

// catchUp brings the region's topics in line with what the mesh deleted while it was
// away, before anybody can write to them or is sent anything of them.
func (s *Server) catchUp(ctx context.Context) error {
	if err := s.wait(ctx, s.room.broker.CatchUp); err != nil {
		return err
	}
	s.parts.start("broker", s.room.broker.Follow, nil)
	return nil
}

// openGroups begins to look after damage that is known, and after groups, when they are
// this node's to look after.
func (s *Server) openGroups(context.Context) error {
	s.parts.start("known damage", s.keepDamage, nil)
	s.parts.start("consumer groups", s.room.broker.RunGroups, nil)
	return nil
}

// groups gives what the file says of consumer groups.
func (s *Server) groups() groups.Config {
	g := s.cfg.Groups
	return groups.Config{
		InitialDelay: time.Duration(orNone(int64(g.InitialRebalanceDelay))), MinSession: g.MinSessionTimeout.Std(), MaxSession: g.MaxSessionTimeout.Std(),
		MaxMembers: g.MaxMembers, MaxGroupBytes: int64(g.MaxBytes), Memory: int64(s.cfg.Limits.GroupMemory),
		MaxOffsetBytes: int64(g.MaxOffsetBytes), OffsetMemory: int64(s.cfg.Limits.OffsetMemory), OffsetsRetention: g.OffsetsRetention.Std(),
	}
}

// namespaceRetention gives what the mesh's documents say about a topic's retention
// in this region.
func (s *Server) namespaceRetention(t rhumb.Topic) (ms, bytes *int64) {
	return s.room.view.RetentionIn(t, s.cfg.Region.Name)
}

// namespaceBacklog gives what a topic's namespace says of records that other regions
// lack.
func (s *Server) namespaceBacklog(t rhumb.Topic) *configstore.Backlog {
	ns, ok := s.room.view.Namespace(t.Tenant, t.Namespace)
	if !ok {
		return nil
	}
	return ns.Backlog
}

func retentionMs(d config.Duration) int64 {
	if d < 0 {
		return -1
	}
	return max(1, d.Std().Milliseconds())
}

package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// raftStorage is the storage as Raft sees it: a group that has no configuration
// yet starts with the voters of its Config, and a snapshot is an offer whose
// content follows when the receiver has said what it lacks.
type raftStorage struct {
	Storage
	s *Shard
}

// InitialState gives the stored state with a commit index between what is
// applied and what is there.
func (r *raftStorage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hs, conf, err := r.Storage.InitialState()
	if err != nil {
		return nil, nil, err
	}
	last, err := r.LastIndex()
	if err != nil {
		return nil, nil, err
	}
	applied, _ := r.Applied()
	if applied > 0 || !raft.IsEmptyHardState(hs) {
		commit := min(max(hs.GetCommit(), applied), max(last, applied))
		hs = &raftpb.HardState{Term: new(hs.GetTerm()), Vote: new(hs.GetVote()), Commit: &commit}
	}
	if conf == nil || len(conf.Voters) == 0 {
		conf = &raftpb.ConfState{Voters: append([]uint64(nil), r.s.cfg.Voters...)}
	}
	return hs, raftpb.EnsureConfState(conf), nil
}

// Entries notes a failure to read, since Raft panics at it.
func (r *raftStorage) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	entries, err := r.Storage.Entries(lo, hi, maxSize)
	if err != nil && !errors.Is(err, raft.ErrCompacted) && !errors.Is(err, raft.ErrUnavailable) {
		r.s.failed = rhumb.Errorf(rhumb.KindUnavailable, "shard %d: read entries %d to %d: %w", r.s.cfg.ID, lo, hi, err)
	}
	return entries, err
}

// Snapshot offers the applied state.
func (r *raftStorage) Snapshot() (*raftpb.Snapshot, error) {
	m := r.s.m
	if m.index == 0 {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	conf := proto.Clone(r.s.conf).(*raftpb.ConfState)
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{ConfState: conf, Index: new(m.index), Term: new(m.term)}}, nil
}

func confChange(e *raftpb.Entry) (raftpb.ConfChangeI, error) {
	if e.GetType() == raftpb.EntryConfChange {
		cc := &raftpb.ConfChange{}
		return cc, unmarshalConf(e.GetData(), cc)
	}
	cc := &raftpb.ConfChangeV2{}
	return cc, unmarshalConf(e.GetData(), cc)
}

func unmarshalConf(data []byte, into proto.Message) error {
	if err := proto.Unmarshal(data, into); err != nil {
		return rhumb.Errorf(rhumb.KindCorrupt, "shard: configuration change: %w", err)
	}
	return nil
}

// raftLogger passes on what Raft says: its chatter as debug, as this package
// tells of changed roles itself.
type raftLogger struct{ log *slog.Logger }

func (l raftLogger) put(level slog.Level, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "raft", "text", fmt.Sprint(v...))
	}
}

func (l raftLogger) putf(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "raft", "text", fmt.Sprintf(format, v...))
	}
}

func (l raftLogger) Debug(v ...any)                   { l.put(slog.LevelDebug, v) }
func (l raftLogger) Debugf(format string, v ...any)   { l.putf(slog.LevelDebug, format, v) }
func (l raftLogger) Info(v ...any)                    { l.put(slog.LevelDebug, v) }
func (l raftLogger) Infof(format string, v ...any)    { l.putf(slog.LevelDebug, format, v) }
func (l raftLogger) Warning(v ...any)                 { l.put(slog.LevelWarn, v) }
func (l raftLogger) Warningf(format string, v ...any) { l.putf(slog.LevelWarn, format, v) }
func (l raftLogger) Error(v ...any)                   { l.put(slog.LevelError, v) }
func (l raftLogger) Errorf(format string, v ...any)   { l.putf(slog.LevelError, format, v) }
func (l raftLogger) Fatal(v ...any)                   { l.Panic(v...) }
func (l raftLogger) Fatalf(format string, v ...any)   { l.Panicf(format, v...) }
func (l raftLogger) Panic(v ...any)                   { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any)   { panic(fmt.Sprintf(format, v...)) }

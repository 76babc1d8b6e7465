package statedb

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"github.com/rhumbmq/rhumb/storage/index"
)

const (
	rowVersion    = 1
	appliedSize   = 24
	denseSize     = 80
	partitionSize = 16
	runSize       = 16
	fileSize      = 8
	logEndsSize   = 24
)

// Applied is how far a shard has applied its log, and its voters there.
type Applied struct {
	Index uint64
	Term  uint64
	Conf  *raftpb.ConfState // never nil
}

func corruptf(format string, args ...any) error {
	return rhumb.Errorf(rhumb.KindCorrupt, "statedb: %w", fmt.Errorf(format, args...))
}

func checkRow(what string, b []byte, size int) error {
	switch {
	case len(b) < size:
		return corruptf("%s row of %d bytes, want %d", what, len(b), size)
	case b[0] != rowVersion:
		return rhumb.Errorf(rhumb.KindUnsupported, "statedb: %s row of version %d", what, b[0])
	}
	return nil
}

func appendApplied(b []byte, a Applied) ([]byte, error) {
	conf, err := proto.Marshal(a.Conf)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	b = append(b, rowVersion, 0, 0, 0)
	b = le.AppendUint32(b, uint32(len(conf)))
	b = le.AppendUint64(b, a.Index)
	b = le.AppendUint64(b, a.Term)
	return append(b, conf...), nil
}

func parseApplied(b []byte) (Applied, error) {
	if err := checkRow("applied", b, appliedSize); err != nil {
		return Applied{}, err
	}
	le := binary.LittleEndian
	a := Applied{Index: le.Uint64(b[8:]), Term: le.Uint64(b[16:]), Conf: &raftpb.ConfState{}}
	if n := int64(le.Uint32(b[4:])); n > int64(len(b)-appliedSize) {
		return a, corruptf("applied row: conf state of %d bytes does not fit %d", n, len(b))
	}
	n := le.Uint32(b[4:])
	if err := proto.Unmarshal(b[appliedSize:appliedSize+n], a.Conf); err != nil {
		return a, corruptf("applied row: conf state: %w", err)
	}
	return a, nil
}

func appendRef(b []byte, r *index.Ref) []byte {
	le := binary.LittleEndian
	b = append(b, rowVersion, 0, 0, 0)
	b = le.AppendUint32(b, r.Span)
	b = le.AppendUint32(b, r.Size)
	b = le.AppendUint16(b, uint16(r.Source.Region))
	b = append(b, 0, 0)
	b = append(b, r.Source.Life[:]...)
	b = le.AppendUint64(b, uint64(r.First))
	b = le.AppendUint64(b, uint64(r.MaxTime))
	b = le.AppendUint64(b, uint64(r.AppendTime))
	b = le.AppendUint64(b, r.Raft)
	b = le.AppendUint64(b, r.File)
	return le.AppendUint64(b, r.Pos)
}

// parseRef decodes a dense row; the base offset comes from the key. The ref has
// a source of its own.
func parseRef(b []byte, base rhumb.Offset) (index.Ref, error) {
	if err := checkRow("dense", b, denseSize); err != nil {
		return index.Ref{}, err
	}
	le := binary.LittleEndian
	src := &index.Source{Region: rhumb.RegionNumber(le.Uint16(b[12:])), Life: rhumb.Life(b[16:32])}
	r := index.Ref{
		Base: base, Span: le.Uint32(b[4:]), Size: le.Uint32(b[8:]), Source: src,
		First: rhumb.Offset(le.Uint64(b[32:])), MaxTime: int64(le.Uint64(b[40:])), AppendTime: int64(le.Uint64(b[48:])),
		Raft: le.Uint64(b[56:]), File: le.Uint64(b[64:]), Pos: le.Uint64(b[72:]),
	}
	if r.Span == 0 || base < 0 || r.Last() < base {
		return r, corruptf("dense row: %d offsets from %d on", r.Span, base)
	}
	return r, nil
}

func appendPartitionRow(b []byte, start rhumb.Offset) []byte {
	b = append(b, rowVersion, 0, 0, 0, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(b, uint64(start))
}

func parsePartitionRow(b []byte) (start rhumb.Offset, err error) {
	if err := checkRow("partition", b, partitionSize); err != nil {
		return 0, err
	}
	return rhumb.Offset(binary.LittleEndian.Uint64(b[8:])), nil
}

func appendRunRow(b []byte, term uint64) []byte {
	b = append(b, rowVersion, 0, 0, 0, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(b, term)
}

func parseRunRow(b []byte) (term uint64, err error) {
	if err := checkRow("run", b, runSize); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[8:]), nil
}

// LogEnds is what the database knows of the commit log's files. Both only grow.
type LogEnds struct {
	Through uint64 // all files up to it have settled
	Newest  uint64 // there was a file of this id, with frames in it
}

func appendLogEnds(b []byte, e LogEnds) []byte {
	b = append(b, rowVersion, 0, 0, 0, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, e.Through), e.Newest)
}

func parseLogEnds(b []byte) (LogEnds, error) {
	if err := checkRow("log", b, logEndsSize); err != nil {
		return LogEnds{}, err
	}
	return LogEnds{Through: binary.LittleEndian.Uint64(b[8:]), Newest: binary.LittleEndian.Uint64(b[16:])}, nil
}

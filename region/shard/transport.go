package shard

import (
	"encoding/binary"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Transport carries messages between the replicas of shards. Send does not block
// and may lose, repeat and reorder messages. Messages share memory with the
// sender's log: the transport must not change them, nor the receiver.
type Transport interface {
	Send(m *Message)
}

// MessageKind says what a message is.
type MessageKind uint8

// The kinds of messages.
const (
	MessageRaft    MessageKind = 1 // Raft's own
	MessageFlushed MessageKind = 2 // a follower has flushed its log up to Index
	MessageOffer   MessageKind = 3 // Raft's snapshot message: the receiver is too late for entries
	MessagePull    MessageKind = 4 // the receiver of an offer, which has applied up to Index, wants a piece
	MessagePiece   MessageKind = 5 // a piece of the snapshot at Index
	MessageNoOffer MessageKind = 6 // a pull that nobody knows of: start again
	maxPieces                  = 1 << 24
)

// Message goes from one replica of a shard to another.
type Message struct {
	Kind     MessageKind
	Shard    rhumb.ShardID
	From, To uint64
	Term     uint64
	Index    uint64 // of an entry: see Kind

	Raft *raftpb.Message // MessageRaft, MessageOffer

	// Of snapshots.
	Transfer uint64 // chosen by the receiver
	Seq      uint32 // number of the piece
	Last     bool   // nothing follows
	Conf     *raftpb.ConfState
	Piece    []byte // as the storage gave it
}

const messageVersion = 1

// Append encodes the message behind b.
func (m *Message) Append(b []byte) ([]byte, error) {
	b = append(b, messageVersion, byte(m.Kind))
	b = putUint(b, uint64(m.Shard))
	for _, v := range [...]uint64{m.From, m.To, m.Term, m.Index, m.Transfer, uint64(m.Seq)} {
		b = putUint(b, v)
	}
	b = putBool(b, m.Last)
	for _, part := range [...]proto.Message{m.Raft, m.Conf} {
		if !part.ProtoReflect().IsValid() {
			b = putUint(b, 0)
			continue
		}
		raw, err := proto.Marshal(part)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInternal, "shard: encode message: %w", err)
		}
		b = putString(putUint(b, 1), raw)
	}
	b = putString(b, m.Piece)
	return b, nil
}

// DecodeMessage reads a message that takes all of b, and shares its bytes.
// Errors are of kind corrupt or unsupported.
func DecodeMessage(b []byte) (*Message, error) {
	if len(b) < 2 || b[0] != messageVersion {
		return nil, rhumb.Errorf(rhumb.KindUnsupported, "shard: message of %d bytes and an unknown version", len(b))
	}
	r := reader{b: b[2:]}
	m := &Message{Kind: MessageKind(b[1]), Shard: r.shard(), From: r.uint(), To: r.uint(), Term: r.uint(), Index: r.uint(), Transfer: r.uint()}
	seq := r.uint()
	m.Seq, m.Last = uint32(seq), r.bool()
	if r.uint() == 1 {
		m.Raft = &raftpb.Message{}
		r.proto(m.Raft)
	}
	if r.uint() == 1 {
		m.Conf = &raftpb.ConfState{}
		r.proto(m.Conf)
	}
	m.Piece = r.long()
	switch {
	case r.bad || seq > maxPieces || len(r.b) > 0:
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "shard: message of kind %d does not fit its %d bytes", m.Kind, len(b))
	case (m.Kind == MessageRaft || m.Kind == MessageOffer) && m.Raft == nil:
		return nil, rhumb.Errorf(rhumb.KindCorrupt, "shard: message of kind %d without content", m.Kind)
	}
	return m, nil
}

// long takes a value that may be as long as a batch.
func (r *reader) long() []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > maxEntryBytes {
		r.fail()
		return nil
	}
	r.b = r.b[size:]
	return r.take(int(n))
}

func (r *reader) proto(into proto.Message) {
	if err := proto.Unmarshal(r.long(), into); err != nil {
		r.fail()
	}
}

// post sends a message of the shard's own.
func (s *Shard) post(m *Message) {
	if s.cfg.Transport == nil {
		return
	}
	m.Shard, m.From = s.cfg.ID, s.cfg.Node
	s.cfg.Transport.Send(m)
}

// send sends a message of Raft.
func (s *Shard) send(m *raftpb.Message) {
	kind := MessageRaft
	switch m.GetType() {
	case raftpb.MsgSnap:
		kind = MessageOffer
		s.offer(m.GetTo(), m.GetSnapshot().GetMetadata().GetIndex())
	case raftpb.MsgAppResp:
		if !m.GetReject() {
			s.flush.verified = max(s.flush.verified, m.GetIndex())
		}
	}
	s.post(&Message{Kind: kind, To: m.GetTo(), Raft: m})
}

// receive takes a message of another replica.
func (s *Shard) receive(m *Message) {
	if m.To != s.cfg.Node || m.From == s.cfg.Node {
		return
	}
	switch m.Kind {
	case MessageRaft:
		if t := m.Raft.GetType(); m.Raft.GetFrom() == m.From && t != raftpb.MsgProp && t != raftpb.MsgSnap {
			if err := s.raft.Step(m.Raft); err != nil {
				s.log.Debug("raft refused a message", "from", m.From, "err", err)
			}
		}
	case MessageFlushed:
		if m.Term == s.term {
			if s.flush.reports == nil {
				s.flush.reports = make(map[uint64]uint64)
			}
			s.flush.reports[m.From] = max(s.flush.reports[m.From], m.Index)
		}
	case MessageOffer:
		s.takeOffer(m)
	case MessagePull:
		s.takePull(m)
	case MessagePiece:
		s.takePiece(m)
	case MessageNoOffer:
		if in := s.snap.incoming; in != nil && in.transfer == m.Transfer {
			s.giveUp()
		}
	}
}

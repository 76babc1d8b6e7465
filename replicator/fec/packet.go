package fec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
)

// Types of packets: the first byte. QUIC packets have the bit 0x40 set; of the values
// without it these belong to nobody (RFC 9443, section 3).
const (
	typeData   byte = 4
	typeParity byte = 5
	typeReport byte = 6 // of a receiver: what came
	typeAsk    byte = 7 // of a sender: is there a receiver?
)

// Sizes in bytes. What is around a QUIC packet must fit into what the packet leaves of
// a path's MTU: the longest is of 1452 bytes, with IPv4 and UDP 1480, and a parity
// packet over it 1500.
const (
	headerSize = 10
	lengthSize = 2
	tagSize    = 8
	// Overhead is by how much a packet of this package is longer than what it carries.
	Overhead = headerSize + lengthSize + tagSize
	// maxPacket is the longest QUIC packet that is taken.
	maxPacket = 1452
	maxShard  = lengthSize + maxPacket
	// maxDatagram is the longest packet of this package.
	maxDatagram = maxPacket + Overhead

	secretSize = 16 // of each direction's key
	// SecretSize is how many secret bytes both ends of a session must share.
	SecretSize = 2*secretSize + 3
)

var errPacket = errors.New("fec: not a packet of this session")

// isPacket reports whether a datagram is one of this package: all that a clean link
// pays for.
func isPacket(datagram []byte) bool {
	return len(datagram) > 0 && datagram[0]&^3 == typeData
}

// sessionOf gives the session of a datagram for which isPacket holds, and whether it
// can be one.
func sessionOf(datagram []byte) (uint32, bool) {
	if len(datagram) < headerSize+tagSize || len(datagram) > maxDatagram {
		return 0, false
	}
	return uint24(datagram[1:]), true
}

// header is the first ten bytes. For data, a is the number of packets of the group
// before (0: not known) and b that of this one, unless it ends early; for parity they
// are the numbers of data and parity packets.
type header struct {
	kind    byte
	session uint32 // 24 bits
	group   uint32 // the low 24 bits
	index   byte
	a, b    byte
}

func (h *header) put(b []byte) {
	b[0] = h.kind
	putUint24(b[1:], h.session)
	putUint24(b[4:], h.group)
	b[7], b[8], b[9] = h.index, h.a, h.b
}

func (h *header) get(b []byte) {
	*h = header{kind: b[0], session: uint24(b[1:]), group: uint24(b[4:]), index: b[7], a: b[8], b: b[9]}
}

func putUint24(b []byte, v uint32) { b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v) }
func uint24(b []byte) uint32       { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// fullNumber finds the number whose low 24 bits are given and that is nearest to one
// that was expected.
func fullNumber(low uint32, near uint64) uint64 {
	const span = 1 << 24
	n := near&^(span-1) | uint64(low)
	switch {
	case n+span/2 < near:
		return n + span
	case n > near+span/2 && n >= span:
		return n - span
	}
	return n
}

// key authenticates the packets of one direction of a session: GMAC (NIST SP 800-38D),
// cut to eight bytes. A number is used once per type and index. It is not safe for
// concurrent use.
type key struct {
	gcm   cipher.AEAD
	nonce [12]byte
	tag   [16]byte
}

func newKey(secret []byte) (*key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &key{gcm: gcm}, nil
}

func (k *key) mac(packet []byte, number uint64) []byte {
	k.nonce[0], k.nonce[1] = packet[0], packet[7]
	binary.BigEndian.PutUint64(k.nonce[4:], number)
	return k.gcm.Seal(k.tag[:0], k.nonce[:], nil, packet)[:tagSize]
}

// seal appends the tag.
func (k *key) seal(packet []byte, number uint64) []byte {
	return append(packet, k.mac(packet, number)...)
}

// open checks the tag and takes it off.
func (k *key) open(packet []byte, number uint64) ([]byte, bool) {
	body, tag := packet[:len(packet)-tagSize], packet[len(packet)-tagSize:]
	return body, subtle.ConstantTimeCompare(k.mac(body, number), tag) == 1
}

// message is the body of reports and asks: a number that grows, and what the sender of
// a report has seen since its session began.
type message struct {
	number uint64
	Counts
}

// Counts is what a receiver saw of the data packets of one direction.
type Counts struct {
	Expected  uint64 // that were sent, as far as it knows
	Received  uint64 // that came
	Recovered uint64 // that parity brought back
}

// Lost is how many the network lost.
func (c Counts) Lost() uint64 { return c.Expected - min(c.Expected, c.Received) }

const messageSize = headerSize + 4*8

// appendMessage writes a report or an ask, padded to size, and seals it.
func (k *key) appendMessage(to []byte, kind byte, session uint32, m *message, size int) []byte {
	start := len(to)
	to = append(to, make([]byte, max(messageSize, size-tagSize))...)
	h := header{kind: kind, session: session}
	h.put(to[start:])
	for i, v := range [4]uint64{m.number, m.Expected, m.Received, m.Recovered} {
		binary.BigEndian.PutUint64(to[start+headerSize+8*i:], v)
	}
	return append(to[:start], k.seal(to[start:], m.number)...)
}

// openMessage checks and reads a report or an ask.
func (k *key) openMessage(packet []byte) (m message, err error) {
	if len(packet) < messageSize+tagSize {
		return m, errPacket
	}
	for i, v := range [4]*uint64{&m.number, &m.Expected, &m.Received, &m.Recovered} {
		*v = binary.BigEndian.Uint64(packet[headerSize+8*i:])
	}
	if _, ok := k.open(packet, m.number); !ok {
		return message{}, errPacket
	}
	return m, nil
}

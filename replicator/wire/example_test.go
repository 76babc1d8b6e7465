package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/rhumbmq/rhumb/dedup"
	"github.com/rhumbmq/rhumb/internal/codec"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

var (
	testTopic = rhumb.Topic{Tenant: "public", Namespace: "default", Name: "orders"}
	testLife  = rhumb.Life{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	testMesh  = rhumb.UUID{0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x46, 0x17, 0x88, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f}
	testPool  = rhumb.UUID{0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x88, 0x49, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f}
	testData  = rhumb.UUID{0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x46, 0x27, 0x88, 0x29, 0x2a, 0x2b, 0x2c, 0x2d, 0x2e, 0x2f}
)

// testBatch makes a record batch of count records whose payload is body.
func testBatch(attributes int16, count int32, body []byte) []byte {
	be := binary.BigEndian
	b := make([]byte, codec.BatchHeaderSize, codec.BatchHeaderSize+len(body))
	b = append(b, body...)
	be.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	be.PutUint16(b[21:], uint16(attributes))
	be.PutUint32(b[23:], uint32(count-1))
	be.PutUint64(b[43:], ^uint64(0))
	be.PutUint16(b[51:], ^uint16(0))
	be.PutUint32(b[53:], ^uint32(0))
	be.PutUint32(b[57:], uint32(count))
	be.PutUint32(b[17:], codec.Checksum(b[21:]))
	return b
}

// testDataFrame wraps a batch of count records that starts at offset first.
func testDataFrame(first rhumb.Offset, count int32, batch []byte) *Data {
	codec.PatchBatch(batch, first, 3)
	h, err := codec.ParseBatch(batch)
	if err != nil {
		panic(err)
	}
	last := first + rhumb.Offset(count) - 1
	return &Data{Session: 7, Round: 2, Head: last + 10, Batch: batch, Envelope: codec.Envelope{
		Region: 3, Partition: 9, Life: testLife, First: first, Last: last, Prev: first - 1,
		Chain: codec.NextChain(77, first, last, h.CRC), AppendTime: 1700000000000, Count: uint32(count),
		BatchSize: uint32(len(batch)),
	}}
}

func testWatermark() dedup.Watermark {
	w := dedup.NewWatermark(3, testLife)
	w.Offset, w.Chain, w.Floor = 41, 0x1122334455667788, 12
	w.Recent[0] = dedup.ChainPoint{Offset: 39, Chain: 0x99}
	return w
}

// examples holds one frame of each kind, by the name of its golden file.
var examples = []struct {
	name  string
	frame Frame
}{
	{"hello-boot", &Hello{MinVersion: 1, MaxVersion: 1, Number: 3, Name: "eu-west", Mesh: testMesh, Data: testData, Clock: 1700000000000000,
		Boot: rhumb.UUID{0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x46, 0x37, 0x88, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f}}},
	{"hello-software", &Hello{MinVersion: 1, MaxVersion: 1, Number: 3, Name: "eu-west", Mesh: testMesh, Data: testData, Clock: 1700000000000000,
		Boot: rhumb.UUID{0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x46, 0x37, 0x88, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f}, Software: "0.3.0"}},
	{"hello", &Hello{MinVersion: 1, MaxVersion: 2, Number: 3, Name: "eu-west", Mesh: testMesh, Data: testData,
		Optional: 0x05, Required: 0x02, Clock: 1700000000123456}},
	{"hello-connections", &Hello{MinVersion: 1, MaxVersion: 1, Number: 3, Name: "eu-west", Mesh: testMesh, Data: testData, Clock: 1700000000000000,
		Boot: rhumb.UUID{0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x46, 0x37, 0x88, 0x39, 0x3a, 0x3b, 0x3c, 0x3d, 0x3e, 0x3f}, Software: "0.3.0",
		Pool: testPool, Connections: 64}},
	{"join", &Join{Pool: testPool, Number: 5}},
	{"want", &Want{Connections: 12}},
	{"seen", &Seen{Since: 1700000000123, Changes: 4711, List: []Sighting{{Key: "rhumb/v1/regions/eu-west", Version: 7, Sum: testData}, {Key: "rhumb/v1/mesh", Version: 2}}}},
	{"seen-nothing", &Seen{}},
	{"pauses", &Pauses{List: []Pause{{Space: rhumb.Space{Tenant: "acme", Namespace: "shop"}, At: 1700000000123, By: "ann"}, {At: 1700000000456, By: "token"}}}},
	{"gap-skipped", &Skip{Session: 9, Round: 3, Head: 90, Skip: dedup.Skip{From: 4, To: 8, Chain: 0x1122334455667788, Reason: rhumb.ReasonSkipped, By: "ann"}}},
	{"bye", &Bye{Kind: rhumb.KindForbidden, Text: "region eu belongs to another mesh"}},
	{"topic", &Topic{Topic: testTopic, Partitions: 12, Deletions: 4,
		Configs: map[string]string{"retention.ms": "604800000", "cleanup.policy": "delete"}}},
	{"topic-plain", &Topic{Topic: testTopic, Partitions: 1}},
	{"ping", &Ping{Number: 5, Clock: 1700000000123456}},
	{"pong", &Pong{Number: 5, PingClock: 1700000000123456, Clock: 1700000000200000}},
	{"open", &Open{Session: 7, Partition: rhumb.Partition{Topic: testTopic, Index: 2}, Region: 3, Life: testLife,
		Deletions: 4, Head: 1000, Producer: "rhumb.repl.eu-west.us"}},
	{"state", &State{Session: 7, Window: 4 << 20, Watermark: testWatermark()}},
	{"open-probes", &Open{Session: 7, Partition: rhumb.Partition{Topic: testTopic, Index: 2}, Region: 3, Life: testLife,
		Deletions: 4, Head: 1000, Producer: "rhumb.repl.eu-west.us", Probes: []rhumb.Offset{12, 1 << 40}}},
	{"open-alone", &Open{Session: 7, Partition: rhumb.Partition{Topic: testTopic, Index: 2}, Region: 3, Life: testLife,
		Deletions: 4, Head: 1000, Producer: "rhumb.repl.eu-west.us", Alone: true}},
	{"state-chains", &State{Session: 7, Window: 4 << 20, Watermark: testWatermark(), Chains: []dedup.ChainPoint{{Offset: 12, Chain: 0x77}, {Offset: 1 << 40}}}},
	{"data", testDataFrame(42, 2, testBatch(0, 2, []byte("two records")))},
	{"skip", &Skip{Session: 7, Round: 2, Head: 100, Skip: dedup.Skip{From: 43, To: 50, Chain: 0x99, Reason: rhumb.ReasonForeign}}},
	{"gap", &Skip{Session: 7, Round: 2, Head: 100, Skip: dedup.Skip{From: 50, To: 60, Chain: 0x9a, Reason: rhumb.ReasonRetention}}},
	{"confirm", &Confirm{Session: 7, Watermark: 43, Chain: 0x99}},
	{"refuse", &Refuse{Session: 7, Round: 2, Code: CodeMissing, Watermark: 43, Chain: 0x99, Text: "prev 45 is past it"}},
	{"close", &Close{Session: 7, Code: CodeIdle, Text: "nothing to send"}},
}

// compressible is the frame of the golden file data-compressed.
func compressible() *Data {
	return testDataFrame(42, 2, testBatch(0, 2, bytes.Repeat([]byte("again and again "), 32)))
}

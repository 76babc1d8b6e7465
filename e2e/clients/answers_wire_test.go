package clients

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rhumbmq/rhumb/e2e/process"
	"github.com/rhumbmq/rhumb/internal/codec"
)

// world is a server that probes ask, and what they know of it.
type world struct {
	t    *testing.T
	addr string
	conn net.Conn
	next int32                // correlation id
	ids  map[[16]byte]string  // names of topics by id
	topc map[string][16]byte  // and the other way round
	max  map[int16][2]int16   // versions that the server offers, by API
	held map[string]heldGroup // by name
}

// heldGroup is a group with one member, which a probe began.
type heldGroup struct {
	member     string
	generation int32
}

func newWorld(t *testing.T, bootstrap string) *world {
	t.Helper()
	w := &world{t: t, addr: bootstrap, ids: map[[16]byte]string{}, topc: map[string][16]byte{}, max: map[int16][2]int16{}, held: map[string]heldGroup{}}
	w.dial()
	t.Cleanup(func() { w.conn.Close() })
	for _, k := range w.ask(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse).ApiKeys {
		w.max[k.ApiKey] = [2]int16{k.MinVersion, k.MaxVersion}
	}
	return w
}

func (w *world) dial() {
	w.t.Helper()
	var err error
	if w.conn, err = net.Dial("tcp", w.addr); err != nil {
		w.t.Fatal(err)
	}
}

// answer is what is shown of an answer. A server may close the connection instead.
func (w *world) answer(req kmsg.Request, version int16) string {
	w.t.Helper()
	resp, err := w.try(req, version)
	switch {
	case err == nil:
		return w.show(resp)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		w.conn.Close()
		w.dial()
		return "(the connection is closed)\n"
	default:
		return fmt.Sprintf("(%v)\n", err)
	}
}

// ask sends a request in a version and gives the answer. The connection must
// survive it.
func (w *world) ask(req kmsg.Request, version int16) kmsg.Response {
	w.t.Helper()
	resp, err := w.try(req, version)
	if err != nil {
		w.t.Fatalf("%s version %d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

func (w *world) try(req kmsg.Request, version int16) (kmsg.Response, error) {
	req.SetVersion(version)
	w.next++
	w.conn.SetDeadline(time.Now().Add(process.Limit))
	if _, err := w.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("probe")).AppendRequest(nil, req, w.next)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != w.next {
		return nil, fmt.Errorf("correlation id %d, want %d", got, w.next)
	}
	resp := req.ResponseKind()
	b := kbin.Reader{Src: body[4:]}
	if resp.IsFlexible() && resp.Key() != 18 {
		kmsg.SkipTags(&b)
	}
	return resp, errors.Join(b.Complete(), resp.ReadFrom(b.Src))
}

// best asks in the newest version that both this test and the server know.
func (w *world) best(req kmsg.Request) kmsg.Response {
	w.t.Helper()
	return w.ask(req, min(req.MaxVersion(), w.max[req.Key()][1]))
}

// topic makes sure that there is a topic.
func (w *world) topic(name string, partitions int32, configs ...string) string {
	w.t.Helper()
	if _, is := w.topc[name]; is {
		return name
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	created := w.best(req).(*kmsg.CreateTopicsResponse).Topics[0]
	if created.ErrorCode != 0 {
		w.t.Fatalf("create %s: %v", name, kerr.ErrorForCode(created.ErrorCode))
	}
	w.know(name, created.TopicID)
	process.Until(w.t, name+" is led", func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = name
		for p := range partitions {
			part := kmsg.NewListOffsetsRequestTopicPartition()
			part.Partition, part.Timestamp = p, -1
			t.Partitions = append(t.Partitions, part)
		}
		req.Topics = append(req.Topics, t)
		return !slices.ContainsFunc(w.best(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions,
			func(p kmsg.ListOffsetsResponseTopicPartition) bool { return p.ErrorCode != 0 })
	})
	return name
}

func (w *world) know(name string, id [16]byte) { w.topc[name], w.ids[id] = id, name }

// batch is n records of the topic's sender, a second apart from the given one on.
func batch(s codec.Sender, second int64, n int) []byte {
	var records []codec.PlainRecord
	for i := range n {
		at := second + int64(i)
		records = append(records, codec.PlainRecord{Timestamp: dawn + 1000*at, Key: fmt.Appendf(nil, "key-%d", at), Value: fmt.Appendf(nil, "value %d", at)})
	}
	return codec.BuildBatch(s, records)
}

// dawn is when the first record was written, in ms since 1970.
const dawn = 1_700_000_000_000

// produce appends batches to partition 0 of a topic.
func (w *world) produce(topic string, batches ...[]byte) {
	w.t.Helper()
	for _, b := range batches {
		req := produceRequest(w, 9, topic, 0, b)
		if code := w.ask(req, 9).(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 {
			w.t.Fatalf("produce to %s: %v", topic, kerr.ErrorForCode(code))
		}
	}
}

// Fields whose values differ between any two servers or runs: only whether they
// are set is shown.
var unsteady = map[string]bool{"ClusterID": true, "Host": true, "Port": true, "SessionID": true, "ProducerID": true, "LeaderEpoch": true,
	"CurrentLeaderEpoch": true, "MemberID": true, "LeaderID": true, "LastTimestamp": true, "Dir": true, "Size": true, "TotalBytes": true,
	"UsableBytes": true, "ClientHost": true, "Documentation": true}

var perVersion = regexp.MustCompile(`-v\d+\b`)

// show prints the fields of an answer that are not zero, one in a line.
func (w *world) show(resp kmsg.Response) string {
	var out []string
	w.walk("", reflect.ValueOf(resp).Elem(), &out)
	return perVersion.ReplaceAllString(strings.Join(out, ""), "-vN")
}

func (w *world) walk(path string, v reflect.Value, out *[]string) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	print := func(format string, args ...any) { *out = append(*out, path+" = "+fmt.Sprintf(format, args...)+"\n") }
	switch {
	case name == "Version" || name == "UnknownTags" || name == "ThrottleMillis":
	case name == "ErrorMessage": // texts are for people, who see them in TestKafkaTools
	case v.Type() == reflect.TypeFor[[16]byte]():
		if id := v.Interface().([16]byte); id != [16]byte{} {
			print("id of %s", w.ids[id])
		}
	case unsteady[name] && v.Kind() != reflect.Slice:
		if v.Kind() == reflect.Int32 || v.Kind() == reflect.Int64 {
			if v.Int() == -1 {
				print("-1")
				return
			}
			if strings.HasSuffix(name, "Epoch") {
				return // an epoch may be 0
			}
		}
		if !v.IsZero() {
			print("(set)")
		}
	case name == "ErrorCode" && v.Int() != 0:
		print("%s", strings.SplitN(kerr.ErrorForCode(int16(v.Int())).Error(), ":", 2)[0])
	case name == "RecordBatches":
		w.walkBatches(path, v.Bytes(), out)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				w.walk(strings.TrimPrefix(path+"."+f.Name, "."), v.Field(i), out)
			}
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		w.walk(path, v.Elem(), out)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		if v.Len() > 0 {
			print("%q", v.Bytes())
		}
	case v.Kind() == reflect.Slice:
		w.walkSlice(path, v, out)
	case !v.IsZero():
		print("%v", v.Interface())
	}
}

// walkSlice sorts what servers keep in hash maps.
func (w *world) walkSlice(path string, v reflect.Value, out *[]string) {
	var elements []string
	for i := range v.Len() {
		var lines []string
		w.walk("", v.Index(i), &lines)
		elements = append(elements, strings.Join(lines, ""))
	}
	if v.Len() > 0 && v.Index(0).Kind() == reflect.Struct {
		slices.Sort(elements)
	}
	for i, e := range elements {
		if e == "" {
			e = "= (zero)\n" // it is there
		}
		for line := range strings.Lines(e) {
			*out = append(*out, fmt.Sprintf("%s[%d].%s", path, i, strings.TrimPrefix(line, ".")))
		}
	}
}

func (w *world) walkBatches(path string, b []byte, out *[]string) {
	for i := 0; len(b) > 0; i++ {
		h, err := codec.ParseBatch(b)
		size := 12 + int(binary.BigEndian.Uint32(b[8:]))
		if err != nil || size > len(b) {
			*out = append(*out, fmt.Sprintf("%s = %d bytes more, %v\n", path, len(b), err))
			return
		}
		*out = append(*out, fmt.Sprintf("%s[%d] = %d records from %d, sum %08x\n", path, i, binary.BigEndian.Uint32(b[57:]), h.BaseOffset, binary.BigEndian.Uint32(b[17:])))
		b = b[size:]
	}
}

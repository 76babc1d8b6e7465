package rhumb_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/broker"
	"github.com/rhumbmq/rhumb/broker/brokertest"
	"github.com/rhumbmq/rhumb/broker/kafka"
	"github.com/rhumbmq/rhumb/internal/topicconf"
)

// TestCompatPageIsWhatIsAdvertised asks a server what it speaks, as a client
// does, and compares the answer with the page.
func TestCompatPageIsWhatIsAdvertised(t *testing.T) {
	advertised := map[string]bool{}
	for _, a := range askVersions(t, serveKafka(t)) {
		advertised[fmt.Sprintf("API %d: %d to %d", a[0], a[1], a[2])] = true
	}
	page := map[string]bool{}
	for _, row := range rows(readDoc(t, "compat-kafka.md"), regexp.MustCompile(`^[0-9]+$`)) {
		page["API "+row[0]+": "+row[2]] = true
	}
	if diff := difference(advertised, page); len(diff) > 0 || len(advertised) == 0 {
		t.Errorf("only advertised (+) or only on the page (-): %v", diff)
	}
}

func serveKafka(t *testing.T) net.Addr {
	b, err := broker.New(broker.Config{Region: brokertest.New()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := kafka.New(kafka.Config{Broker: b, NodeID: 1000})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := s.Listen(kafka.Listener{Name: "kafka", Bind: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return addr
}

// askVersions sends ApiVersions version 0 and gives key, lowest and highest
// version of each API.
func askVersions(t *testing.T, addr net.Addr) [][3]int16 {
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	// Length 10, API 18, version 0, correlation id 1, no client id.
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	var head struct {
		Length, Correlation int32
		Error               int16
		APIs                int32
	}
	if err := binary.Read(c, binary.BigEndian, &head); err != nil || head.Error != 0 {
		t.Fatalf("%+v: %v", head, err)
	}
	apis := make([][3]int16, head.APIs)
	if err := binary.Read(io.LimitReader(c, int64(head.Length)), binary.BigEndian, &apis); err != nil {
		t.Fatal(err)
	}
	return apis
}

// TestCompatPageListsSettings compares the page's settings of topics with those
// that have an effect, and the names of nodes' settings with those that can be
// changed.
func TestCompatPageListsSettings(t *testing.T) {
	page := readDoc(t, "compat-kafka.md")
	listed, built := map[string]bool{}, map[string]bool{}
	_, topics, _ := strings.Cut(page, "## Topic settings that do something\n")
	topics, nodes, _ := strings.Cut(topics, "## Settings of nodes\n")
	for _, row := range rows(topics, regexp.MustCompile("^`")) {
		listed[code(row[0])+" = "+code(row[1])] = true
	}
	for _, d := range topicconf.TopicDefs() {
		if d.Effect {
			built[d.Name+" = "+d.Default] = true
		}
	}
	nodes, _, _ = strings.Cut(nodes, "## ")
	for _, name := range regexp.MustCompile("`[a-z.]+`").FindAllString(nodes, -1) {
		listed[code(name)] = true
	}
	for _, d := range topicconf.NodeDefs() {
		if d.Dynamic {
			built[d.Name] = true
		}
	}
	if diff := difference(built, listed); len(diff) > 0 || len(built) == 0 {
		t.Errorf("only in the code (+) or only on the page (-): %v", diff)
	}
}

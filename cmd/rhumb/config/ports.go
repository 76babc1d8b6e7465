package config

import (
	"net"
	"strconv"
)

// Ports are those of one node of one region on one host.
type Ports struct {
	Kafka, Native, HTTP, Geo, Raft, Gossip int
}

// PortsOf gives the default ports of the i-th region of a host and its n-th node,
// both from 0 on.
func PortsOf(i, n int) Ports {
	d := 100*i + 10*n
	return Ports{Kafka: 9092 + d, Native: 6650 + d, HTTP: 8080 + d, Geo: 7650 + d, Raft: 5650 + d, Gossip: 4650 + d}
}

// defaultBind gives where a protocol listens unless told otherwise.
func defaultBind(protocol string) string {
	p := PortsOf(0, 0)
	port := map[string]int{ProtocolKafka: p.Kafka, ProtocolAdmin: p.HTTP, ProtocolGeo: p.Geo}[protocol]
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

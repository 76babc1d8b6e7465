package dev

import (
	"net"
	"strconv"
)

// Ports of the first node of the first region; the i-th region adds 100·i.
const (
	kafkaPort = 9092
	adminPort = 8080
	geoPort   = 7650
	portStep  = 100
)

// MaxRegions bounds a mesh on one machine: the ports of an eleventh region would
// be those of another protocol of the first.
const MaxRegions = 10

// addresses are where one region listens, on the loopback interface.
type addresses struct {
	kafka, admin, geo string
}

func addressesOf(i int) addresses {
	at := func(first int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(first+portStep*i)) }
	return addresses{kafka: at(kafkaPort), admin: at(adminPort), geo: at(geoPort)}
}

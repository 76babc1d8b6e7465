package dev

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// MaxRegions bounds a mesh on one machine: the ports of an eleventh region would
// be those of another protocol of the first.
const MaxRegions = 10

// MaxPortOffset keeps the ports of the last region within 16 bits.
const MaxPortOffset = 50_000

// addresses are where one region listens, on the loopback interface.
type addresses struct {
	kafka, admin, geo string
}

func addressesOf(i, offset int) addresses {
	p := config.PortsOf(i, 0)
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port+offset)) }
	return addresses{kafka: at(p.Kafka), admin: at(p.HTTP), geo: at(p.Geo)}
}

// checkFree binds every address of the mesh and lets go of all again, so that a
// busy port is found and named before anything has started.
func checkFree(regions []*region) error {
	var bound []io.Closer
	defer func() {
		for _, b := range bound {
			b.Close()
		}
	}()
	var busy []error
	for _, r := range regions {
		for _, a := range []struct{ what, addr string }{{"kafka", r.at.kafka}, {"admin", r.at.admin}} {
			l, err := net.Listen("tcp", a.addr)
			if err != nil {
				busy = append(busy, inUse(r.name, a.what, a.addr, err))
				continue
			}
			bound = append(bound, l)
		}
		c, err := net.ListenPacket("udp", r.at.geo)
		if err != nil {
			busy = append(busy, inUse(r.name, "geo", r.at.geo, err))
			continue
		}
		bound = append(bound, c)
	}
	if busy != nil {
		return fmt.Errorf("%w\nstop what uses them, or move all ports with --port-offset", errors.Join(busy...))
	}
	return nil
}

func inUse(name rhumb.RegionName, what, addr string, err error) error {
	return fmt.Errorf("region %s: %s address %s cannot be used: %w", name, what, addr, err)
}

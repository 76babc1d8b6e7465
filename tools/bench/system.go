package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// system is one of the things that are compared.
type system interface {
	// install gets what it needs from public archives, if it is not there.
	install(ctx context.Context) error
	// start starts two clusters and returns when both serve.
	start(ctx context.Context, p *processes) error
	// client connects to the first cluster (0) or the second one (1).
	client(cluster int) (client, error)
	// topic makes a topic in the first cluster, and sees to it that the second one
	// gets a copy of it if copied is set. It gives its name in each.
	topic(ctx context.Context, name string, copied bool) (here, there string, err error)
	// lanes is how many partitions a topic has.
	lanes() int
	// pending is how many records its own client has in flight at most, 0 if it counts
	// bytes only.
	pending() int
}

// client is a connection to a cluster.
type client interface {
	// send hands over n records of a batch, from record i on, and calls done for
	// each when it is answered. Records of a batch go in order, with the same done.
	// It may block while the client is full.
	send(topic string, b *batch, i, n int, done func(i int, err error))
	// receive calls fn with each record of a topic, from its beginning, until ctx is
	// done.
	receive(ctx context.Context, topic string, fn func(value []byte)) error
	close()
}

var systems = map[string]func(o *options) system{
	"rhumb":        func(o *options) system { return &rhumb{options: o} },
	"rhumb-cached": func(o *options) system { return &rhumb{options: o, writes: "cached"} },
	"rhumb-direct": func(o *options) system { return &rhumb{options: o, writes: "direct"} },
	"kafka":        func(o *options) system { return &kafka{options: o} },
	"kafka-fsync":  func(o *options) system { return &kafka{options: o, fsync: true} },
	"pulsar":       func(o *options) system { return &pulsarPair{options: o} },
	"nats":         func(o *options) system { return &jetStream{options: o} },
	"nats-fsync":   func(o *options) system { return &jetStream{options: o, fsync: true} },
}

func names() []string { return slices.Sorted(maps.Keys(systems)) }

func newSystem(name string, o *options) (system, error) {
	if make := systems[name]; make != nil {
		return make(o), nil
	}
	return nil, fmt.Errorf("unknown system: there are %v", names())
}

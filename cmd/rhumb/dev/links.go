package dev

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rhumbmq/rhumb/internal/relay"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// pair is two regions and the relay between them.
type pair struct {
	a, b  rhumb.RegionName
	relay *relay.Relay
}

// links are the relays of all pairs of regions.
type links struct {
	pairs []pair
}

// openLinks opens a relay for each pair of regions. geo gives the address at
// which a region's links listen.
func openLinks(names []rhumb.RegionName, geo func(rhumb.RegionName) string) (*links, error) {
	l := &links{}
	for i, a := range names {
		for _, b := range names[i+1:] {
			r, err := relay.Listen(relay.Config{A: geo(a), B: geo(b), Seed: uint64(len(l.pairs))})
			if err != nil {
				l.close()
				return nil, fmt.Errorf("link %s-%s: %w", a, b, err)
			}
			l.pairs = append(l.pairs, pair{a, b, r})
		}
	}
	return l, nil
}

// via gives the address that region from must dial to reach region to.
func (l *links) via(from, to rhumb.RegionName) string {
	for _, p := range l.pairs {
		switch {
		case p.a == from && p.b == to:
			return p.relay.FrontA().String()
		case p.b == from && p.a == to:
			return p.relay.FrontB().String()
		}
	}
	return ""
}

// run carries datagrams until the context ends.
func (l *links) run(ctx context.Context, spawn func(func())) {
	for _, p := range l.pairs {
		spawn(func() { p.relay.Run(ctx) })
	}
}

func (l *links) close() {
	for _, p := range l.pairs {
		p.relay.Close()
	}
}

// names lists the links, as the commands name them.
func (l *links) names() []string {
	var out []string
	for _, p := range l.pairs {
		out = append(out, string(p.a)+"-"+string(p.b))
	}
	return out
}

// change applies settings to a link: "us-eu" is both directions, "us>eu" is
// only what travels from us to eu, "*" is every link.
func (l *links) change(name, settings string) error {
	if name == "*" {
		for _, p := range l.pairs {
			if err := p.relay.Change(relay.Both, settings); err != nil {
				return err
			}
		}
		return nil
	}
	r, way, err := l.find(name)
	if err != nil {
		return err
	}
	return r.Change(way, settings)
}

// find resolves a link's name. Region names may hold hyphens, so a name is
// compared with those of the links instead of being split.
func (l *links) find(name string) (*relay.Relay, relay.Direction, error) {
	for _, p := range l.pairs {
		a, b := string(p.a), string(p.b)
		switch name {
		case a + "-" + b, b + "-" + a:
			return p.relay, relay.Both, nil
		case a + ">" + b:
			return p.relay, relay.AToB, nil
		case b + ">" + a:
			return p.relay, relay.BToA, nil
		}
	}
	known := l.names()
	slices.Sort(known)
	return nil, 0, rhumb.Errorf(rhumb.KindNotFound,
		"no link %q; links are %s (A>B names one direction)", name, strings.Join(known, ", "))
}

// describe tells the settings of each direction of each link.
func (l *links) describe() []LinkState {
	var out []LinkState
	for _, p := range l.pairs {
		ab, ba := p.relay.Settings()
		out = append(out,
			LinkState{From: p.a, To: p.b, Settings: ab.String()},
			LinkState{From: p.b, To: p.a, Settings: ba.String()})
	}
	return out
}

// Changed gives the settings that are not those of a perfect line.
func (l LinkState) Changed() string {
	perfect := strings.Split(relay.Settings{}.String(), ",")
	var out []string
	for item := range strings.SplitSeq(l.Settings, ",") {
		if !slices.Contains(perfect, item) {
			out = append(out, item)
		}
	}
	if out == nil {
		return "perfect"
	}
	return strings.Join(out, ",")
}

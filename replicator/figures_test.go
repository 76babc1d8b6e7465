package replicator

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rhumbmq/rhumb/internal/bubble"
	"github.com/rhumbmq/rhumb/internal/relay"
)

var figures = flag.Bool("figures", false, "measure links over bad lines, in virtual time: minutes of work")

// TestFiguresOfBadLines prints what a link carries over bad lines, with one connection
// and with as many as it finds worth having. Time is virtual, so the load of the machine
// does not count, nor what its processors could do.
//
//	go test ./replicator -run TestFiguresOfBadLines -figures -v
func TestFiguresOfBadLines(t *testing.T) {
	if !*figures {
		t.Skip("only with -figures")
	}
	for _, line := range []relay.Settings{
		{Delay: 100 * time.Millisecond, Loss: .01},
		{Delay: 10 * time.Millisecond, Loss: .0001},
		{Delay: 40 * time.Millisecond, Loss: .001},
		{Delay: 150 * time.Millisecond, Loss: .03},
		{Delay: 50 * time.Millisecond},
	} {
		for _, partitions := range []int{1, 8} {
			for _, most := range []int{1, 64} {
				t.Run(fmt.Sprintf("%s %g%% partitions=%d connections=%d", 2*line.Delay, 100*line.Loss, partitions, most), func(t *testing.T) {
					bubble.Test(t, func(t *testing.T) { figure(newMesh(t, line, "us", "eu"), partitions, most) })
				})
			}
		}
	}
}

// figure copies a backlog for up to a minute and a half.
func figure(ms *mesh, partitions, most int) {
	const batches, size, enough = 1200, 100_000, 90 * time.Second
	ms.limits = Limits{Connections: most}
	us, eu := ms.nodes["us"], ms.nodes["eu"]
	us.create(orders, int32(partitions))
	for i := range batches {
		us.produce(orders, i%partitions, 100, size)
	}
	ms.start()
	ms.until("linked", 30*time.Second, func() bool { return ms.linked("us", "eu") })
	appended := func() int {
		eu.region.mu.Lock()
		defer eu.region.mu.Unlock()
		return eu.region.appends
	}
	began := time.Now()
	var half time.Duration // when half of the time, or of the batches, was over
	atHalf, seen := 0, 0
	for n := 0; n < batches && time.Since(began) < enough; n = appended() {
		time.Sleep(100 * time.Millisecond)
		if half == 0 && (n >= batches/2 || time.Since(began) > enough/2) {
			half, atHalf = time.Since(began), n
		}
		seen = max(seen, us.connections("eu"))
	}
	took, n := time.Since(began), appended()
	st := us.link("eu")
	ms.t.Logf("%6.2f MB/s, %6.2f in the second half, %d connections at most, %.1f s; loss seen %.2f %%, %d links, %d connections lost, %d rebuilt, %d rewinds",
		float64(n)*size/1e6/took.Seconds(), float64(n-atHalf)*size/1e6/(took-half).Seconds(), seen, took.Seconds(), 100*st.Loss,
		st.Connects, st.ConnectionsLost, st.Rebuilds, st.Rewinds)
}

// TestFiguresOfNewData prints how old new records are when bad lines have brought them:
// 2,000 a second of 1 KiB in 6 partitions, for 15 s, on a link that was idle.
//
//	go test ./replicator -run TestFiguresOfNewData -figures -v
func TestFiguresOfNewData(t *testing.T) {
	if !*figures {
		t.Skip("only with -figures")
	}
	for _, c := range []struct {
		line relay.Settings
		each time.Duration // between two bursts, in which all is lost for 50 ms; 0: none
	}{
		{relay.Settings{Delay: 100 * time.Millisecond}, 0},
		{relay.Settings{Delay: 100 * time.Millisecond, Loss: .01}, 0},
		{relay.Settings{Delay: 150 * time.Millisecond, Loss: .03}, 0},
		{relay.Settings{Delay: 40 * time.Millisecond, Loss: .001}, 0},
		{relay.Settings{Delay: 10 * time.Millisecond, Loss: .0001}, 0},
		{relay.Settings{Delay: 40 * time.Millisecond}, 2 * time.Second},
	} {
		inBubble(t, c.line, usEu, func(ms *mesh) {
			us, eu := ms.nodes["us"], ms.nodes["eu"]
			ms.flowing(us, eu, 6)
			x := eu.arrivals()
			ms.stream(us, eu, 6, 15*time.Second, func(at time.Duration) {
				if c.each == 0 {
					return
				}
				switch at % c.each {
				case c.each / 2:
					ms.cut("us", "eu", relay.Settings{Delay: c.line.Delay, Loss: 1})
				case c.each/2 + 50*time.Millisecond:
					ms.cut("us", "eu", c.line)
				}
			})
			st := us.link("eu")
			ms.t.Logf("%s %g%% bursts each %s: one of a hundred older than %s; %d connections, correction %s, %d bytes of padding",
				2*c.line.Delay, 100*c.line.Loss, c.each, x.worst(), st.Connections, st.Correction.Code, st.PaddingBytes)
		})
	}
}

// TestFiguresOfYoungLinks prints how old new records are on links that came up a moment
// before they begin to come.
//
//	go test ./replicator -run TestFiguresOfYoungLinks -figures -v
func TestFiguresOfYoungLinks(t *testing.T) {
	if !*figures {
		t.Skip("only with -figures")
	}
	for _, line := range []relay.Settings{
		{Delay: 100 * time.Millisecond},
		{Delay: 100 * time.Millisecond, Loss: .01},
		{Delay: 150 * time.Millisecond, Loss: .03},
		{Delay: 40 * time.Millisecond, Loss: .001},
		{Delay: 10 * time.Millisecond, Loss: .0001},
	} {
		for _, idle := range []time.Duration{0, 500 * time.Millisecond, time.Second} {
			inBubble(t, line, usEu, func(ms *mesh) {
				us, eu := ms.nodes["us"], ms.nodes["eu"]
				ms.opened(us, eu, 6, idle)
				for p := range 6 {
					us.produce(live, p, 1, 300)
				}
				for p := range 6 {
					ms.until("open", 10*time.Second, func() bool { return copied(us, eu, live, p) })
				}
				x := eu.arrivals()
				ms.stream(us, eu, 6, 3*time.Second, nil)
				st := us.link("eu")
				slices.Sort(x.ages)
				at := func(part float64) int64 { return x.ages[int(part*float64(len(x.ages)))].Milliseconds() }
				ms.t.Logf("%s %g%% after %s: of 3 s, half older than %d ms, a tenth %d, one of twenty %d, of fifty %d, the oldest %d; %d connections, %s, %d bytes of padding",
					2*line.Delay, 100*line.Loss, idle, at(.5), at(.9), at(.95), at(.98), at(.9999), st.Connections, st.Correction.Code, st.PaddingBytes)
			})
		}
	}
}

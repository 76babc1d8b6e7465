package server

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

// produceHeld sends a record whose flush is held back and gives where its answer
// will arrive.
func (f *fixture) produceHeld(value string) <-chan error {
	f.Helper()
	// An idempotent producer would never give up a record that may be stored.
	c := f.client(f.kafka(), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	f.produce(c, "orders", "first")
	f.disk.hold()
	answer := make(chan error, 1)
	c.Produce(context.Background(), &kgo.Record{Topic: "orders", Value: []byte(value)}, func(_ *kgo.Record, err error) { answer <- err })
	until(f.T, "the record's flush is held back", func() bool { // and not only one of the background's
		return f.disk.held() > 0 && f.server.Region().Health().InFlight > 0
	})
	return answer
}

// Told to stop, a region is not ready any more, takes no connections, answers
// what is in flight, and ends without an error.
func TestI1StopAnswersWhatIsInFlight(t *testing.T) {
	f := start(t, configure(t))
	if code, body := get("http://"+f.admin()+"/readyz", ""); code != 200 {
		t.Fatalf("readyz is %d before the stop: %s", code, body)
	}
	answer := f.produceHeld("second")
	f.stop()
	until(t, "readyz is 503", func() bool { code, _ := get("http://"+f.admin()+"/readyz", ""); return code == 503 })
	if code, body := get("http://"+f.admin()+"/healthz", ""); code != 200 {
		t.Errorf("healthz is %d while it stops: %s", code, body)
	}
	until(t, "the Kafka listener is closed", func() bool { return !accepts(f.kafka()) })
	select {
	case err := <-answer:
		t.Errorf("answered before the flush: %v", err)
	case <-f.ended:
		t.Errorf("ended before the flush: %v", f.err)
	default:
	}
	f.disk.release()
	if err := <-answer; err != nil {
		t.Errorf("what was in flight: %v", err)
	}
	if err := f.end(); err != nil {
		t.Errorf("clean stop: %v", err)
	}
	if accepts(f.admin()) {
		t.Error("the HTTP listener is open after the end")
	}
	again := start(t, f.cfg)
	again.consume(again.kafka(), "orders", "first", "second")
}

func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return false
	}
	defer c.Close()
	// A socket that was closed a moment ago may still shake hands; it does not talk.
	c.SetDeadline(time.Now().Add(limit))
	if _, err := c.Write([]byte{0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}); err != nil { // ApiVersions
		return false
	}
	_, err = c.Read(make([]byte, 1))
	return err == nil
}

// A stop that takes longer than its grace ends hard, and says so: whoever was
// not answered will ask again.
func TestStopEndsAfterItsGrace(t *testing.T) {
	cfg := configure(t)
	cfg.ShutdownGrace = config.Duration(50 * time.Millisecond)
	f := start(t, cfg)
	answer := f.produceHeld("second")
	f.stop()
	if err := <-answer; err == nil {
		t.Error("answered without a flush")
	}
	f.disk.release() // the data directory is closed in order all the same
	if err := f.end(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "Kafka listeners") {
		t.Errorf("%v, want the part that did not end in time", err)
	}
	start(t, cfg)
}

// A flush that never returns does not keep the process: shortly after the grace it
// ends with an error that names what hangs, and all that was answered is there.
func TestI1HungFlushDoesNotOutliveTheGrace(t *testing.T) {
	cfg := configure(t)
	cfg.ShutdownGrace = config.Duration(50 * time.Millisecond)
	f := launchBy(t, cfg, (*Server).RunInTime)
	select {
	case <-f.server.Ready():
	case <-time.After(limit):
		t.Fatal("the region is not ready")
	}
	answer := f.produceHeld("second")
	f.stop()
	if err := f.end(); err == nil || !strings.Contains(err.Error(), "not stopped within the grace of 50ms: ") {
		t.Fatalf("%v, want an end in time", err)
	}
	if !strings.Contains(f.log.String(), "region does not stop in time") {
		t.Errorf("it does not say so:\n%s", f.log)
	}
	<-answer
	f.disk.release() // the disk answers after all: the test's process goes on
	<-f.server.ended
	again := start(t, f.cfg)
	c := again.client(again.kafka(), kgo.ConsumeTopics("orders"))
	if got := c.PollRecords(again.ctx(), 1).Records(); len(got) != 1 || string(got[0].Value) != "first" {
		t.Errorf("%v, want what was answered", got)
	}
}

func TestStopBeforeReady(t *testing.T) {
	cfg := configure(t)
	first := start(t, cfg) // so that there is something to recover
	first.stop()
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	f := launch(t, cfg)
	f.stop()
	if err := f.end(); err != nil {
		t.Errorf("stop while it starts: %v", err)
	}
}

// After a kill nothing is said any more, and all that was answered is there.
func TestI1Kill(t *testing.T) {
	f := start(t, configure(t))
	f.produce(f.client(f.kafka()), "orders", "first")
	f.server.killing.Do(func() { close(f.server.killed) }) // the moment of its death, which Kill waits from
	lines := strings.Count(f.log.String(), "\n")
	f.server.Kill()
	if err := f.end(); err != nil {
		t.Errorf("kill: %v", err)
	}
	if text := f.log.String(); strings.Count(text, "\n") != lines {
		t.Errorf("it spoke after its death:\n%s", text)
	}
	again := start(t, f.cfg)
	again.consume(again.kafka(), "orders", "first")
}

// A failed flush ends the log: nothing is answered from then on, the process
// ends with the cause, and a restart has all that was answered.
func TestI1BrokenDiskEndsTheRegion(t *testing.T) {
	f := start(t, configure(t))
	c := f.client(f.kafka(), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	f.produce(c, "orders", "first")
	f.disk.fail(errBroken)
	if err := c.ProduceSync(f.ctx(), &kgo.Record{Topic: "orders", Value: []byte("second")}).FirstErr(); err == nil {
		t.Error("answered although the flush failed")
	}
	if err := f.end(); !errors.Is(err, errBroken) {
		t.Errorf("%v, want the disk's error", err)
	}
	again := start(t, f.cfg)
	again.produce(again.client(again.kafka()), "orders", "third")
	c = again.client(again.kafka(), kgo.ConsumeTopics("orders"))
	var got []string
	for ctx := f.ctx(); len(got) == 0 || got[len(got)-1] != "third"; {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		if ctx.Err() != nil {
			t.Fatalf("got %q", got)
		}
	}
	// Nobody was told what became of the second: both are right.
	if text := strings.Join(got, " "); text != "first third" && text != "first second third" {
		t.Errorf("after the restart there is %q", text)
	}
}

// Where a listener cannot be bound, the region ends with the address and leaves
// nothing locked.
func TestBusyAddressIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := configure(t)
	cfg.Listeners[0].Bind = l.Addr().String()
	f := launch(t, cfg)
	if err := f.end(); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("%v, want one that names %s", err, l.Addr())
	}
	l.Close()
	start(t, cfg)
}

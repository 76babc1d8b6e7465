package main

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// kafka is two brokers of Apache Kafka in KRaft mode, one node each, and a
// MirrorMaker 2 that copies from the first to the second.
type kafka struct {
	options *options
	fsync   bool // log.flush.interval.messages=1
	mirror  bool // MirrorMaker was started
	p       *processes
}

//go:embed kafka.xml
var kafkaPOM []byte

func (s *kafka) lanes() int { return s.options.parts }

func (s *kafka) pending() int { return 0 }

func (s *kafka) lib() string { return filepath.Join(s.options.cache, "kafka") }

// install gets the jars from Maven Central.
func (s *kafka) install(ctx context.Context) error {
	return installJars(ctx, "Kafka", s.lib(), kafkaPOM)
}

func (s *kafka) addr(cluster int) string {
	return fmt.Sprintf("%s:%d", s.options.net.host(cluster), 27094+100*cluster)
}

// java gives arguments for a Java program of the distribution, with the options that
// its own scripts give to servers.
func (s *kafka) java(heap, class string, args ...string) []string {
	return append(append([]string{"-Xmx" + heap, "-Xms" + heap, "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
		"-Dlog4j2.level=WARN", "-cp", s.lib() + "/*"}, class), args...)
}

func (s *kafka) start(ctx context.Context, p *processes) error {
	s.p = p
	for i, name := range []string{"a", "b"} {
		controller := fmt.Sprintf("%s:%d", s.options.net.host(i), 27095+100*i)
		conf := []string{
			"process.roles=broker,controller", "node.id=1", "controller.quorum.bootstrap.servers=" + controller,
			"controller.listener.names=CONTROLLER", "listeners=PLAINTEXT://" + s.addr(i) + ",CONTROLLER://" + controller,
			"advertised.listeners=PLAINTEXT://" + s.addr(i) + ",CONTROLLER://" + controller,
			"log.dirs=" + filepath.Join(p.dir, "data-"+name),
			"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1",
			"group.initial.rebalance.delay.ms=0", "auto.create.topics.enable=false",
		}
		if s.fsync {
			conf = append(conf, "log.flush.interval.messages=1")
		}
		if err := p.write(name+".properties", strings.Join(conf, "\n")+"\n"); err != nil {
			return err
		}
		const id = "cmh1bWJiZW5jaG1hcmtzMQ" // any 16 bytes
		if err := p.run(ctx, i, "", "java", s.java("128m", "kafka.tools.StorageTool", "format", "-t", id, "-c", name+".properties", "--standalone")...); err != nil {
			return err
		}
		if err := p.start(i, name, "java", s.java("1g", "kafka.Kafka", name+".properties")...); err != nil {
			return err
		}
	}
	for i := range 2 {
		c, err := dialKafka(s.addr(i), s.options.linger)
		if err != nil {
			return err
		}
		defer c.close()
		if err := until(ctx, 2*time.Minute, c.ping); err != nil {
			return err
		}
	}
	return nil
}

// startMirror starts MirrorMaker 2. What it adds to its own settings makes it see a
// new topic sooner, and two tasks use both cores. It lives with the second cluster, as
// its documentation advises: it reads over the line and writes beside it.
func (s *kafka) startMirror() error {
	s.mirror = true
	conf := []string{
		"clusters=a,b", "a.bootstrap.servers=" + s.addr(0), "b.bootstrap.servers=" + s.addr(1),
		"a->b.enabled=true", "b->a.enabled=false", "b->a.emit.heartbeats.enabled=false", "topics=copied.*", "tasks.max=2",
		"refresh.topics.interval.seconds=2", "replication.factor=1", "checkpoints.topic.replication.factor=1",
		"heartbeats.topic.replication.factor=1", "offset-syncs.topic.replication.factor=1", "offset.storage.replication.factor=1",
		"status.storage.replication.factor=1", "config.storage.replication.factor=1",
	}
	if err := s.p.write("mirror.properties", strings.Join(conf, "\n")+"\n"); err != nil {
		return err
	}
	return s.p.start(1, "mirror", "java", s.java("1g", "org.apache.kafka.connect.mirror.MirrorMaker", "mirror.properties")...)
}

func (s *kafka) client(cluster int) (client, error) {
	return dialKafka(s.addr(cluster), s.options.linger)
}

func (s *kafka) topic(ctx context.Context, name string, copied bool) (here, there string, err error) {
	if copied {
		name = "copied-" + name
	}
	c, err := dialKafka(s.addr(0), s.options.linger)
	if err != nil {
		return "", "", err
	}
	defer c.close()
	if err := c.makeTopic(ctx, name, s.lanes()); err != nil {
		return "", "", err
	}
	if copied && !s.mirror {
		err = s.startMirror()
	}
	return name, "a." + name, err
}

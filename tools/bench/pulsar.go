package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// pulsarPair is two standalone clusters of Apache Pulsar, each with its own metadata
// (RocksDB in the process) and one bookie, that copy a namespace to each other.
type pulsarPair struct {
	options *options
}

//go:embed pulsar.xml
var pulsarPOM []byte

func (s *pulsarPair) lanes() int { return s.options.parts }

func (s *pulsarPair) pending() int { return 0 }

func (s *pulsarPair) lib() string { return filepath.Join(s.options.cache, "pulsar") }

func (s *pulsarPair) install(ctx context.Context) error {
	return installJars(ctx, "Pulsar", s.lib(), pulsarPOM)
}

func (s *pulsarPair) url(cluster int) string {
	return fmt.Sprintf("pulsar://%s:%d", s.options.net.host(cluster), 27660+100*cluster)
}

func (s *pulsarPair) admin(cluster int) string {
	return fmt.Sprintf("http://%s:%d", s.options.net.host(cluster), 27670+100*cluster)
}

// pulsarNames are those of the clusters.
var pulsarNames = [2]string{"a", "b"}

// conf is the file that broker and bookie read.
func (s *pulsarPair) conf(cluster int) string {
	host := s.options.net.host(cluster)
	lines := []string{
		"clusterName=" + pulsarNames[cluster],
		"bindAddress=" + host, "advertisedAddress=" + host,
		fmt.Sprintf("brokerServicePort=%d", 27660+100*cluster), fmt.Sprintf("webServicePort=%d", 27670+100*cluster),
		"metadataStoreUrl=", "configurationMetadataStoreUrl=", // standalone fills them in
		"listeningInterface=" + s.options.net.device(), "allowLoopback=true",

		// As in the standalone.conf of the distribution.
		"managedLedgerDefaultEnsembleSize=1", "managedLedgerDefaultWriteQuorum=1", "managedLedgerDefaultAckQuorum=1",
		"ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
		"nettyMaxFrameSizeBytes=5253120", "flushInterval=60000", "journalMaxGroupWaitMSec=1", "journalMaxBackups=0",
		"loadBalancerEnabled=false", "defaultNumberOfNamespaceBundles=4",

		// Flush before the answer: so it is with bookies unless told otherwise, but
		// standalone.conf tells them otherwise.
		"journalSyncData=true",

		// What is not used here.
		"webSocketServiceEnabled=false", "transactionCoordinatorEnabled=false",

		// A consumer must not make a topic of one partition. Records stay though no
		// subscription holds them, since consume-1k reads them later, and on a disk
		// that is nearly full.
		"allowAutoTopicCreation=false", "defaultRetentionTimeInMinutes=-1", "defaultRetentionSizeInMB=-1",
		"brokerDeleteInactiveTopicsEnabled=false", "diskUsageThreshold=0.99", "diskUsageWarnThreshold=0.98",
		"brokerShutdownTimeoutMs=5000",
	}
	return strings.Join(lines, "\n") + "\n"
}

// pulsarOpens is what the libraries need of the runtime's inside.
var pulsarOpens = []string{
	"java.base/java.io", "java.base/java.lang", "java.base/java.nio", "java.base/java.util", "java.base/java.util.zip",
	"java.base/jdk.internal.loader", "java.base/jdk.internal.misc", "java.base/jdk.internal.platform", "java.base/sun.net",
	"java.base/sun.nio.ch", "java.management/sun.management", "jdk.management/com.sun.management.internal",
}

func (s *pulsarPair) java(cluster int) []string {
	args := []string{"-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
		"-Djava.net.preferIPv4Stack=true", "-Dlog4j2.configurationFile=log.properties", "-Dio.netty.leakDetectionLevel=disabled",
		"-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.recycler.maxCapacityPerThread=4096"}
	for _, open := range pulsarOpens {
		args = append(args, "--add-opens", open+"=ALL-UNNAMED")
	}
	const drivers = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata" // how a bookie reaches the broker's RocksDB
	args = append(args, "-Dbookkeeper.metadata.bookie.drivers="+drivers+"BookieDriver", "-Dbookkeeper.metadata.client.drivers="+drivers+"ClientDriver")
	name := pulsarNames[cluster]
	return append(args, "-cp", s.lib()+"/*", "org.apache.pulsar.PulsarStandaloneStarter", "--config", name+".conf",
		"--no-functions-worker", "--no-stream-storage", "--metadata-dir", "data-"+name+"/metadata",
		"--bookkeeper-dir", "data-"+name+"/bookkeeper", "--bookkeeper-port", fmt.Sprint(27680+100*cluster))
}

// pulsarLog has warnings only: a jar of the distribution says otherwise.
const pulsarLog = `rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5level %logger{36} - %msg%n
`

func (s *pulsarPair) start(ctx context.Context, p *processes) error {
	if err := p.write("log.properties", pulsarLog); err != nil {
		return err
	}
	for i, name := range pulsarNames {
		if err := p.write(name+".conf", s.conf(i)); err != nil {
			return err
		}
		if err := p.start(i, name, "java", s.java(i)...); err != nil {
			return err
		}
	}
	for i := range pulsarNames {
		if err := until(ctx, 3*time.Minute, func(ctx context.Context) error {
			return s.ask(ctx, i, http.MethodGet, "brokers/health", nil)
		}); err != nil {
			return err
		}
	}
	for i := range pulsarNames {
		if err := until(ctx, time.Minute, func(ctx context.Context) error { return s.join(ctx, i) }); err != nil {
			return err
		}
	}
	return nil
}

// join tells a cluster of both, and makes the namespaces. It may be called again.
func (s *pulsarPair) join(ctx context.Context, cluster int) error {
	for i, name := range pulsarNames {
		if err := s.put(ctx, cluster, "clusters/"+name, map[string]string{"serviceUrl": s.admin(i), "brokerServiceUrl": s.url(i)}); err != nil {
			return err
		}
	}
	if err := s.put(ctx, cluster, "tenants/bench", map[string]any{"allowedClusters": pulsarNames}); err != nil {
		return err
	}
	if err := s.ask(ctx, cluster, http.MethodPut, "namespaces/bench/copied", map[string]any{"replication_clusters": pulsarNames}); err != nil {
		return err
	}
	return s.ask(ctx, cluster, http.MethodPut, "namespaces/bench/local", map[string]any{"replication_clusters": pulsarNames[cluster : cluster+1]})
}

// put makes a thing, or changes it if it is there.
func (s *pulsarPair) put(ctx context.Context, cluster int, path string, body any) error {
	if s.ask(ctx, cluster, http.MethodGet, path, nil) == nil {
		return s.ask(ctx, cluster, http.MethodPost, path, body)
	}
	return s.ask(ctx, cluster, http.MethodPut, path, body)
}

func (s *pulsarPair) ask(ctx context.Context, cluster int, method, path string, body any) error {
	return askPulsar(ctx, s.admin(cluster), method, path, body)
}

// askPulsar sends a request to a cluster's admin API. That a thing is there already is
// no error.
func askPulsar(ctx context.Context, admin, method, path string, body any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, admin+"/admin/v2/"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	why, err := io.ReadAll(io.LimitReader(answer.Body, 4096))
	if err == nil && answer.StatusCode/100 != 2 && answer.StatusCode != http.StatusConflict {
		err = fmt.Errorf("%s %s: %s: %s", method, r.URL, answer.Status, why)
	}
	return err
}

func (s *pulsarPair) client(cluster int) (client, error) { return dialPulsar(s.url(cluster)) }

func (s *pulsarPair) topic(ctx context.Context, name string, copied bool) (here, there string, err error) {
	namespace, clusters := "bench/local/", 1
	if copied {
		namespace, clusters = "bench/copied/", 2
	}
	for i := range clusters {
		if err := until(ctx, time.Minute, func(ctx context.Context) error {
			return s.ask(ctx, i, http.MethodPut, "persistent/"+namespace+name+"/partitions", s.lanes())
		}); err != nil {
			return "", "", err
		}
	}
	name = "persistent://" + namespace + name
	return name, name, nil
}

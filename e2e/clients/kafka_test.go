package clients

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// recordKafka makes tests that compare a region with Kafka ask a real one, which
// they start from the jars of the tools, and keep its answers as golden files. The
// steps of the clients run on one then, too, instead of a region.
var recordKafka = flag.Bool("kafka", false, "start a real Kafka, run the tests there, and keep what it answers as golden files")

// kafkaNode is the node id of the first node of the first region, so that answers
// of the recorded Kafka differ in less.
const kafkaNode = "1000"

// startKafka runs a real Kafka of one node until the test ends.
func startKafka(t *testing.T) (bootstrap string) {
	t.Helper()
	dir := t.TempDir()
	lib := filepath.Join(filepath.Dir(installed(t, "java", "java/lib")), "lib", "*")
	tools := filepath.Join(filepath.Dir(installed(t, "java", "java/lib")), "tools", "*")
	run := func(args ...string) *exec.Cmd {
		return exec.Command(need(t, "java"), append([]string{"-Xmx512m", "-Dlog4j2.configurationFile=java/log4j2.yaml", "-cp", lib + ":" + tools}, args...)...)
	}
	ports := []int{freePort(t), freePort(t)}
	bootstrap = fmt.Sprintf("127.0.0.1:%d", ports[0])
	properties := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=%s
broker.rack=us
controller.quorum.bootstrap.servers=127.0.0.1:%d
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d
log.dirs=%s/data
num.partitions=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`, kafkaNode, ports[1], bootstrap, ports[1], dir)
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	format := run("kafka.tools.StorageTool", "format", "-t", "rhumbrhumbrhumbrhumbrg", "-c", properties, "--standalone",
		"--feature", "eligible.leader.replicas.version=0") // it would show in every topic's settings
	if out, err := format.CombinedOutput(); err != nil {
		t.Fatalf("format: %v\n%s", err, out)
	}
	server := run("kafka.Kafka", properties)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait(); log.Close() })
	process.Until(t, "Kafka answers", func() bool {
		out, err := exec.Command(need(t, "kcat"), "-L", "-b", bootstrap).CombinedOutput()
		return err == nil && len(out) > 0
	})
	return bootstrap
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

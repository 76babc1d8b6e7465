import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Kafka's Java client: see doc.go one folder up. */
public final class Client {
    static final Duration PATIENCE = Duration.ofSeconds(60);
    static final ConcurrentLinkedQueue<Throwable> TROUBLE = new ConcurrentLinkedQueue<>();

    final String bootstrap;
    final String name = "java-" + System.currentTimeMillis();
    final Set<String> topics = new HashSet<>();
    final Admin admin;

    Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(common());
    }

    // ---- what every step uses

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void equal(Object got, Object want, String what) {
        check(want.equals(got), what + ": got " + got + ", want " + want);
    }

    static void until(String what, Callable<Boolean> holds) throws Exception {
        long end = System.nanoTime() + PATIENCE.toNanos();
        while (!holds.call()) {
            if (!TROUBLE.isEmpty()) throw new AssertionError(what, TROUBLE.poll());
            check(System.nanoTime() < end, "not within " + PATIENCE + ": " + what);
            Thread.sleep(20);
        }
    }

    static byte[] bytes(Object o) {
        return o.toString().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] b) {
        return new String(b, StandardCharsets.UTF_8);
    }

    Properties common(String... more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("reconnect.backoff.ms", "20");
        p.put("reconnect.backoff.max.ms", "200");
        String login = System.getenv("KAFKA_LOGIN"); // mechanism, user, password
        if (login != null) {
            String[] words = login.split(" ");
            String module = words[0].equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            p.put("security.protocol", "SASL_PLAINTEXT");
            p.put("sasl.mechanism", words[0]);
            p.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\"" + words[1] + "\" password=\""
                + words[2] + "\";");
        }
        for (int i = 0; i < more.length; i += 2) p.put(more[i], more[i + 1]);
        return p;
    }

    KafkaProducer<byte[], byte[]> producer(String... more) {
        return new KafkaProducer<>(common(more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    KafkaConsumer<byte[], byte[]> consumer(String... more) {
        Properties p = common(more);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    String topic(String suffix, int partitions, Map<String, String> configs) throws Exception {
        String topic = name + "-" + suffix;
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        topics.add(topic);
        until(topic + " is listed", () -> admin.listTopics().names().get().contains(topic));
        return topic;
    }

    String topic(String suffix, int partitions) throws Exception {
        return topic(suffix, partitions, Map.of());
    }

    /** The records of a partition up to its end: there must be n. */
    List<ConsumerRecord<byte[], byte[]>> read(String topic, int n, int partition) throws Exception {
        TopicPartition part = new TopicPartition(topic, partition);
        List<ConsumerRecord<byte[], byte[]>> out = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            c.assign(List.of(part));
            long end = c.endOffsets(List.of(part)).get(part);
            c.seekToBeginning(List.of(part));
            until(topic + " is read to " + end, () -> {
                c.poll(Duration.ofMillis(200)).forEach(out::add);
                return c.position(part) >= end;
            });
        }
        equal(out.size(), n, "records in " + topic);
        return out;
    }

    void fill(String topic, int partitions, int begin, int end) throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("enable.idempotence", "true", "batch.size", "1000")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = begin; i < end; i++) sent.add(p.send(new ProducerRecord<>(topic, i % partitions, null, bytes(i))));
            for (Future<RecordMetadata> f : sent) f.get();
        }
    }

    // ---- groups

    /** What members of a group have read of a topic. */
    static final class Seen {
        final Set<String> distinct = ConcurrentHashMap.newKeySet();
        final AtomicInteger again = new AtomicInteger();

        void add(ConsumerRecord<byte[], byte[]> r) {
            if (!distinct.add(r.partition() + " " + text(r.value()))) again.incrementAndGet();
        }
    }

    /** One member of a group, which commits what it gives up. */
    final class Member extends Thread implements ConsumerRebalanceListener {
        final Set<Integer> owned = ConcurrentHashMap.newKeySet();
        final AtomicBoolean stopping = new AtomicBoolean();
        final KafkaConsumer<byte[], byte[]> consumer;
        final Seen seen;

        Member(String group, String topic, String assignor, Seen seen) {
            this.seen = seen;
            consumer = consumer("group.id", group, "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor,
                "session.timeout.ms", "10000", "heartbeat.interval.ms", "300", "max.poll.records", "50");
            consumer.subscribe(List.of(topic), this);
            setDaemon(true);
            start();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> parts) {
            parts.forEach(p -> owned.add(p.partition()));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> parts) {
            commit();
            parts.forEach(p -> owned.remove(p.partition()));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> parts) {
            parts.forEach(p -> owned.remove(p.partition()));
        }

        void commit() {
            try {
                consumer.commitSync();
            } catch (CommitFailedException | RebalanceInProgressException | RetriableException e) {
                // the group has moved on, or its coordinator is away: what was read may be read again
            }
        }

        @Override
        public void run() {
            try (consumer) {
                while (!stopping.get()) {
                    var records = consumer.poll(Duration.ofMillis(100));
                    records.forEach(seen::add);
                    if (!records.isEmpty()) commit();
                }
            } catch (Throwable e) {
                TROUBLE.add(e);
            }
        }

        void halt() throws Exception {
            stopping.set(true);
            join(PATIENCE.toMillis());
            check(!isAlive() && TROUBLE.isEmpty(), "a member did not end well: " + TROUBLE);
        }
    }

    static List<Integer> shares(List<Member> members) {
        return members.stream().map(m -> m.owned.size()).sorted().toList();
    }

    String rebalance(String assignor) throws Exception {
        String topic = topic("group-" + assignor, 6), group = topic;
        Seen seen = new Seen();
        fill(topic, 6, 0, 600);
        List<Member> members = new ArrayList<>(List.of(new Member(group, topic, assignor, seen)));
        until("one member has all", () -> shares(members).equals(List.of(6)));
        members.add(new Member(group, topic, assignor, seen));
        members.add(new Member(group, topic, assignor, seen));
        until("three members share", () -> shares(members).equals(List.of(2, 2, 2)));
        Set<Integer> all = new HashSet<>();
        members.forEach(m -> all.addAll(m.owned));
        equal(all.size(), 6, "partitions of the three");
        until("600 are read", () -> seen.distinct.size() == 600);
        members.remove(2).halt();
        until("two members share", () -> shares(members).equals(List.of(3, 3)));
        fill(topic, 6, 600, 660);
        until("660 are read", () -> seen.distinct.size() == 660);
        for (Member m : members) m.halt();
        equal(seen.again.get(), 0, "records read again");
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        for (int p = 0; p < 6; p++) equal(committed.get(new TopicPartition(topic, p)).offset(), 110L, "committed");
        return assignor + ": 1, 3 and 2 members read 660 once";
    }

    // ---- steps

    String create() throws Exception {
        String topic = topic("admin", 3, Map.of("retention.ms", "3600000"));
        equal(partitions(topic), 3, "partitions");
        try {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            check(false, "a topic was created twice");
        } catch (ExecutionException e) {
            check(e.getCause() instanceof TopicExistsException, "creating it again: " + e.getCause());
        }
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        until("5 partitions", () -> partitions(topic) == 5);
        return "created with 3 partitions, grown to 5";
    }

    int partitions(String topic) throws Exception {
        return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    String configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, name + "-admin");
        ConfigEntry first = config(topic, "retention.ms");
        equal(first.value() + " " + first.source(), "3600000 DYNAMIC_TOPIC_CONFIG", "given at creation");
        alter(topic, new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET);
        until("the change is seen", () -> config(topic, "retention.ms").value().equals("7200000"));
        alter(topic, new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE);
        until("the default is back", () -> config(topic, "retention.ms").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        String node = admin.describeCluster().nodes().get().iterator().next().idString();
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, node);
        int n = admin.describeConfigs(List.of(broker)).all().get().get(broker).entries().size();
        check(n > 0, "a broker without settings");
        return "described, set and reset; " + n + " of a broker";
    }

    ConfigEntry config(ConfigResource r, String key) throws Exception {
        Map<ConfigResource, Config> all = admin.describeConfigs(List.of(r)).all().get();
        return all.get(r).get(key);
    }

    void alter(ConfigResource r, ConfigEntry e, AlterConfigOp.OpType op) throws Exception {
        admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(e, op)))).all().get();
    }

    String produce(String codec) throws Exception {
        String topic = topic(codec, 1);
        try (KafkaProducer<byte[], byte[]> p = producer("compression.type", codec, "linger.ms", "5")) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                RecordHeaders headers = new RecordHeaders();
                headers.add("n", bytes(i));
                sent.add(p.send(new ProducerRecord<>(topic, null, bytes("key-" + i), bytes(value(i)), headers)));
            }
            for (int i = 0; i < 300; i++) equal(sent.get(i).get().offset(), (long) i, "acknowledged offset");
        }
        int i = 0;
        for (ConsumerRecord<byte[], byte[]> r : read(topic, 300, 0)) {
            String got = text(r.key()) + " " + text(r.value()) + " " + text(r.headers().lastHeader("n").value());
            equal(got, "key-" + i + " " + value(i) + " " + i, "record");
            i++;
        }
        return "300 records in order with keys and headers";
    }

    static String value(int i) {
        return "value " + i + " " + "lorem ipsum ".repeat(8);
    }

    String idempotent() throws Exception {
        String topic = topic("idempotent", 2);
        fill(topic, 2, 0, 1000);
        for (int p = 0; p < 2; p++) {
            int next = p;
            for (ConsumerRecord<byte[], byte[]> r : read(topic, 500, p)) {
                equal(text(r.value()), "" + next, "partition " + p);
                next += 2;
            }
        }
        return "1000 records once and in order";
    }

    String group() throws Exception {
        return rebalance("RangeAssignor") + "; " + rebalance("CooperativeStickyAssignor");
    }

    String commits() throws Exception {
        String topic = topic("commits", 1), group = topic;
        fill(topic, 1, 0, 10);
        TopicPartition part = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> c = consumer("group.id", group)) {
            c.commitSync(Map.of(part, new OffsetAndMetadata(7, "seven")));
            equal(c.committed(Set.of(part)).get(part), new OffsetAndMetadata(7, "seven"), "committed");
            c.subscribe(List.of(topic));
            List<Long> got = new ArrayList<>();
            until("a record", () -> {
                c.poll(Duration.ofMillis(200)).forEach(r -> got.add(r.offset()));
                return !got.isEmpty();
            });
            equal(got.get(0), 7L, "where the group goes on");
        }
        return "offset and metadata kept, the group goes on there";
    }

    String time() throws Exception {
        String topic = topic("time", 1);
        TopicPartition part = new TopicPartition(topic, 0);
        long begin = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<byte[], byte[]> p = producer("linger.ms", "50")) {
            for (int i = 0; i < 100; i++) p.send(new ProducerRecord<>(topic, 0, begin + 1000L * i, null, bytes(i)));
        }
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            Map<Long, Long> want = new LinkedHashMap<>(Map.of(41_500L, 42L, 0L, 0L, 99_000L, 99L, 99_001L, -1L));
            for (Map.Entry<Long, Long> w : want.entrySet()) {
                var found = c.offsetsForTimes(Map.of(part, begin + w.getKey())).get(part);
                equal(found == null ? -1L : found.offset(), w.getValue(), "offset at " + w.getKey() + " ms");
            }
            equal(c.beginningOffsets(List.of(part)).get(part) + " " + c.endOffsets(List.of(part)).get(part), "0 100", "ends");
            c.assign(List.of(part));
            c.seek(part, 42);
            List<String> got = new ArrayList<>();
            until("a record", () -> {
                c.poll(Duration.ofMillis(200)).forEach(r -> got.add(text(r.value())));
                return !got.isEmpty();
            });
            equal(got.get(0), "42", "the record at 42");
        }
        equal(admin.listOffsets(Map.of(part, OffsetSpec.maxTimestamp())).all().get().get(part).offset(), 99L, "offset of the largest time");
        return "offsets by time, seek";
    }

    String deleteRecords() throws Exception {
        TopicPartition part = new TopicPartition(name + "-time", 0);
        long low = admin.deleteRecords(Map.of(part, RecordsToDelete.beforeOffset(30))).lowWatermarks().get(part).get().lowWatermark();
        equal(low, 30L, "low watermark");
        equal(read(part.topic(), 70, 0).get(0).offset(), 30L, "first offset");
        return "log starts at 30";
    }

    boolean listed(String group) throws Exception {
        return admin.listGroups().all().get().stream().anyMatch(g -> g.groupId().equals(group));
    }

    String groups() throws Exception {
        String group = name + "-commits";
        TopicPartition part = new TopicPartition(group, 0);
        check(listed(group), "the group is not listed");
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        equal(described.groupState() + " " + described.members().size(), "Empty 0", "described");
        admin.alterConsumerGroupOffsets(group, Map.of(part, new OffsetAndMetadata(3))).all().get();
        equal(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(part).offset(), 3L, "offset altered");
        admin.deleteConsumerGroupOffsets(group, Set.of(part)).all().get();
        equal(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size(), 0, "offsets left");
        group = name + "-group-RangeAssignor";
        admin.deleteConsumerGroups(List.of(group)).all().get();
        check(!listed(group), "the group is still listed");
        return "listed, described, reset and deleted";
    }

    String deleteTopics() throws Exception {
        admin.deleteTopics(topics).all().get();
        until("none is listed", () -> admin.listTopics().names().get().stream().noneMatch(topics::contains));
        return topics.size() + " topics deleted; kafka-clients " + AppInfoParser.getVersion();
    }

    int steps() {
        Map<String, Callable<String>> all = new LinkedHashMap<>();
        all.put("topics", this::create);
        all.put("configs", this::configs);
        for (String codec : Arrays.asList("none", "gzip", "snappy", "lz4", "zstd")) all.put("produce-" + codec, () -> produce(codec));
        all.put("idempotent", this::idempotent);
        all.put("group", this::group);
        all.put("commits", this::commits);
        all.put("time", this::time);
        all.put("delete-records", this::deleteRecords);
        all.put("groups", this::groups);
        all.put("delete-topics", this::deleteTopics);
        int failed = 0;
        for (Map.Entry<String, Callable<String>> step : all.entrySet()) {
            long begin = System.nanoTime();
            try {
                String said = step.getValue().call();
                System.out.printf("ok %s: %s (%.1f s)%n", step.getKey(), said, (System.nanoTime() - begin) / 1e9);
            } catch (Throwable e) {
                failed++;
                System.out.printf("FAIL %s: %s%n", step.getKey(), e);
                e.printStackTrace();
            }
        }
        return failed == 0 ? 0 : 1;
    }

    int load(String topic) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
        AtomicBoolean stop = new AtomicBoolean();
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                TROUBLE.add(e);
            }
            stop.set(true);
        });
        input.setDaemon(true);
        input.start();
        Seen seen = new Seen();
        List<Member> members = List.of(new Member(topic + "-readers", topic, "CooperativeStickyAssignor", seen),
            new Member(topic + "-readers", topic, "CooperativeStickyAssignor", seen));
        AtomicInteger acked = new AtomicInteger();
        int n = 0;
        try (KafkaProducer<byte[], byte[]> p = producer("enable.idempotence", "true", "linger.ms", "1", "delivery.timeout.ms", "120000",
                "retry.backoff.ms", "20")) {
            while (!stop.get()) {
                for (int i = 0; i < 10; i++, n++) {
                    p.send(new ProducerRecord<>(topic, n % 3, null, bytes(n)), (meta, e) -> {
                        if (e != null) TROUBLE.add(e);
                        else if (acked.incrementAndGet() % 200 == 0) System.out.println("acked " + acked.get());
                    });
                }
                while (n - acked.get() > 1000 && TROUBLE.isEmpty()) Thread.sleep(50);
                Thread.sleep(10);
            }
        }
        System.out.println("produced " + n);
        int produced = n;
        until("all is acknowledged", () -> acked.get() == produced);
        until("the group has read everything", () -> seen.distinct.size() >= produced);
        System.out.printf("ok load: the group read %d, %d of them again%n", seen.distinct.size(), seen.again.get());
        for (Member m : members) m.halt();
        return 0;
    }

    public static void main(String[] args) {
        int code = 2;
        try {
            if (args.length == 2 && args[0].equals("steps")) code = new Client(args[1]).steps();
            else if (args.length == 3 && args[0].equals("load")) code = new Client(args[1]).load(args[2]);
            else System.err.println("usage: Client steps BOOTSTRAP | load BOOTSTRAP TOPIC");
        } catch (Throwable e) {
            System.out.println("FAIL: " + e);
            e.printStackTrace();
            code = 1;
        }
        System.exit(code);
    }
}

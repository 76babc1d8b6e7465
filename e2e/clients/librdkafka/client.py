"""librdkafka, through confluent-kafka: see doc.go one folder up."""

import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from steps import CODECS, TROUBLE, Acks, Seen, Stop, check, equal, finish_load, login, main, prefix, until, values

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import libversion, version
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, NewPartitions,
                                   NewTopic, OffsetSpec, ResourceType)


def common(bootstrap):
    """What every client here is configured with."""
    conf = {"bootstrap.servers": bootstrap}
    if login():
        conf |= dict(zip(("sasl.mechanism", "sasl.username", "sasl.password"), login())) | {"security.protocol": "SASL_PLAINTEXT"}
    return conf


def result(futures):
    """The results of an admin call, by name; the first error is raised."""
    return {name: f.result(60) for name, f in futures.items()}


class Member(threading.Thread):
    """One member of a group, which commits what it gives up."""

    def __init__(self, conf, topic, seen):
        super().__init__(daemon=True)
        self.consumer, self.seen = Consumer(conf), seen
        self.owned, self.stopping, self.error = set(), threading.Event(), None
        self.consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self.start()

    def _assigned(self, consumer, parts):
        self.owned |= {p.partition for p in parts}

    def _revoked(self, consumer, parts):
        self._commit()
        self.owned -= {p.partition for p in parts}

    def _lost(self, consumer, parts):
        self.owned -= {p.partition for p in parts}

    def _commit(self):
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as err:
            retry = (KafkaError._NO_OFFSET, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID,
                     KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._WAIT_COORD)
            # a close that meets a coordinator not yet found again gives up the last commit: records are read again then, none is lost
            given_up = self.stopping.is_set() and err.args[0].code() == KafkaError._DESTROY
            if err.args[0].code() not in retry and not given_up:
                self.error = err

    def run(self):
        try:
            while not self.stopping.is_set():
                for m in self.consumer.consume(50, 0.1):
                    if m.error():
                        if not m.error().retriable() and m.error().code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                            self.error = m.error()
                        continue
                    self.seen.add(m.partition(), m.value())
                self._commit()
            self.consumer.close()
        except Exception as err:
            self.error = err
            TROUBLE.append(err)

    def stop(self):
        self.stopping.set()
        self.join(60)
        check(self.error is None and not self.is_alive(), f"member: {self.error!r}")


class Steps:
    def __init__(self, bootstrap):
        self.conf = common(bootstrap)
        self.admin = AdminClient(self.conf)
        self.name = prefix("librdkafka")
        self.topics = set()

    def all(self):
        produce = [(f"produce-{c}", lambda c=c: self.produce(c)) for c in CODECS]
        return [("topics", self.create), ("configs", self.configs), *produce, ("idempotent", self.idempotent), ("group", self.group),
                ("commits", self.commits), ("time", self.time), ("delete-records", self.delete_records), ("groups", self.groups),
                ("delete-topics", self.delete_topics)]

    def topic(self, suffix, partitions=1, **config):
        name = f"{self.name}-{suffix}"
        config = {k.replace("_", "."): v for k, v in config.items()}
        result(self.admin.create_topics([NewTopic(name, partitions, 1, config=config)]))
        self.topics.add(name)
        until(f"{name} is listed", lambda: name in self.admin.list_topics(timeout=10).topics)
        return name

    def consumer(self, group="none", **conf):
        conf = {k.replace("_", "."): v for k, v in conf.items()}
        return Consumer({**self.conf, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **conf})

    def read(self, topic, n, partition=0, offset=0):
        """The n records from the offset on; there must be no other."""
        c = self.consumer(enable_partition_eof=True)
        c.assign([TopicPartition(topic, partition, offset)])
        out, end = [], False
        deadline = time.monotonic() + 60
        while not end and time.monotonic() < deadline:
            for m in c.consume(500, 0.2):
                if m.error():
                    equal(m.error().code(), KafkaError._PARTITION_EOF, "error while reading")
                    end = True
                else:
                    out.append(m)
        c.close()
        equal(len(out), n, f"records in {topic}")
        return out

    def create(self):
        name = self.topic("admin", 3, retention_ms="3600000")
        equal(len(self.admin.list_topics(name, timeout=10).topics[name].partitions), 3, "partitions")
        try:
            result(self.admin.create_topics([NewTopic(name, 3, 1)]))
            check(False, "a topic was created twice")
        except KafkaException as err:
            equal(err.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS, "creating it again")
        result(self.admin.create_partitions([NewPartitions(name, 5)]))
        until("5 partitions", lambda: len(self.admin.list_topics(name, timeout=10).topics[name].partitions) == 5)
        return "created with 3 partitions, grown to 5"

    def configs(self):
        resource = ConfigResource(ResourceType.TOPIC, f"{self.name}-admin")

        def get(name):
            return list(result(self.admin.describe_configs([resource])).values())[0][name]

        equal((get("retention.ms").value, get("retention.ms").source), ("3600000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value), "given at creation")
        for op, value, want in ((AlterConfigOpType.SET, "7200000", "7200000"), (AlterConfigOpType.DELETE, None, None)):
            change = ConfigEntry("retention.ms", value, incremental_operation=op)
            result(self.admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, resource.name, incremental_configs=[change])]))
            if want:
                until("the change is seen", lambda: get("retention.ms").value == want)
            else:
                until("the default is back", lambda: get("retention.ms").is_default)
        brokers = self.admin.list_topics(timeout=10).brokers
        of_broker = list(result(self.admin.describe_configs([ConfigResource(ResourceType.BROKER, str(next(iter(brokers))))])).values())[0]
        check(of_broker, "a broker without settings")
        return f"described, set and reset; {len(of_broker)} of a broker"

    def produce(self, codec):
        topic, want, acked = self.topic(codec), values(300), []
        p = Producer({**self.conf, "compression.type": codec, "linger.ms": 5})
        for key, value, headers in want:
            p.produce(topic, value, key, headers=headers, on_delivery=lambda err, m: acked.append((err, m.offset())))
        equal(p.flush(60), 0, "records left")
        equal(acked, [(None, i) for i in range(300)], "acknowledged offsets")
        got = [(m.key(), m.value(), m.headers()) for m in self.read(topic, 300)]
        equal(got, want, "records")
        return "300 records in order with keys and headers"

    def idempotent(self):
        topic, acked = self.topic("idempotent", 2), []
        p = Producer({**self.conf, "enable.idempotence": True, "batch.num.messages": 10})
        for i in range(1000):
            p.produce(topic, b"%d" % i, partition=i % 2, on_delivery=lambda err, m: acked.append(err))
        equal(p.flush(60), 0, "records left")
        equal(acked, [None] * 1000, "errors")
        for part in (0, 1):
            equal([int(m.value()) for m in self.read(topic, 500, part)], list(range(part, 1000, 2)), f"partition {part}")
        return "1000 records once and in order"

    def fill(self, topic, partitions, begin, end):
        p = Producer({**self.conf, "enable.idempotence": True})
        for i in range(begin, end):
            p.produce(topic, b"%d" % i, partition=i % partitions)
        equal(p.flush(60), 0, "records left")

    def group(self):
        out = []
        for strategy in ("range,roundrobin", "cooperative-sticky"):
            out.append(self.rebalance(strategy))
        return "; ".join(out)

    def rebalance(self, strategy):
        kind = strategy.split("-")[0].split(",")[0]
        topic, group, seen = self.topic("group-" + kind, 6), f"{self.name}-group-{kind}", Seen()
        conf = {**self.conf, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                "partition.assignment.strategy": strategy, "session.timeout.ms": 10000, "heartbeat.interval.ms": 300}
        self.fill(topic, 6, 0, 600)
        members = [Member(conf, topic, seen)]
        until("one member has all", lambda: len(members[0].owned) == 6)
        members += [Member(conf, topic, seen), Member(conf, topic, seen)]
        until("three members share", lambda: sorted(len(m.owned) for m in members) == [2, 2, 2])
        equal(set().union(*(m.owned for m in members)), set(range(6)), "partitions of the three")
        until("600 are read", lambda: len(seen) == 600)
        members.pop().stop()
        until("two members share", lambda: sorted(len(m.owned) for m in members) == [3, 3])
        self.fill(topic, 6, 600, 660)
        until("660 are read", lambda: len(seen) == 660)
        for m in members:
            m.stop()
        equal(seen.again, 0, "records read again")
        committed = self.consumer(group).committed([TopicPartition(topic, p) for p in range(6)], timeout=30)
        equal([p.offset for p in committed], [110] * 6, "committed")
        return f"{kind}: 1, 3 and 2 members read 660 once"

    def commits(self):
        topic, group = self.topic("commits"), f"{self.name}-commits"
        self.fill(topic, 1, 0, 10)
        c = self.consumer(group)
        c.commit(offsets=[TopicPartition(topic, 0, 7, metadata="seven")], asynchronous=False)
        got = c.committed([TopicPartition(topic, 0)], timeout=30)[0]
        equal((got.offset, got.metadata), (7, "seven"), "committed")
        c.subscribe([topic])
        first = None
        deadline = time.monotonic() + 60
        while first is None and time.monotonic() < deadline:
            first = c.poll(0.2)
        c.close()
        check(first and first.offset() == 7, f"the group goes on at 7, got {first and first.offset()}")
        return "offset and metadata kept, the group goes on there"

    def time(self):
        topic, begin = self.topic("time"), int(time.time() * 1000) - 100_000
        p = Producer({**self.conf, "linger.ms": 50})
        for i in range(100):
            p.produce(topic, b"%d" % i, timestamp=begin + 1000 * i)
        equal(p.flush(60), 0, "records left")
        c = self.consumer()
        for at, want in ((begin + 41_500, 42), (begin, 0), (begin + 99_000, 99), (begin + 99_001, -1)):
            got = c.offsets_for_times([TopicPartition(topic, 0, at)], timeout=30)[0].offset
            equal(got, want, f"offset at {at - begin} ms")
        equal(c.get_watermark_offsets(TopicPartition(topic, 0), timeout=30), (0, 100), "ends")
        c.assign([TopicPartition(topic, 0, 42)])
        until("a record", lambda: (m := c.poll(0.2)) is not None and int(m.value()) == 42)
        c.close()
        spec = {TopicPartition(topic, 0): OffsetSpec.max_timestamp()}
        equal([r.offset for r in result(self.admin.list_offsets(spec)).values()], [99], "offset of the largest time")
        return "offsets by time, seek"

    def delete_records(self):
        topic = f"{self.name}-time"
        low = list(result(self.admin.delete_records([TopicPartition(topic, 0, 30)])).values())[0].low_watermark
        equal(low, 30, "low watermark")
        equal(self.read(topic, 70, offset=30)[0].offset(), 30, "first offset")
        return "log starts at 30"

    def groups(self):
        group, topic = f"{self.name}-commits", f"{self.name}-commits"
        listed = self.admin.list_consumer_groups().result(60).valid
        check(group in [g.group_id for g in listed], "the group is not listed")
        described = result(self.admin.describe_consumer_groups([group]))[group]
        equal((described.state.name, len(described.members)), ("EMPTY", 0), "described")
        offsets = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 3)])
        result(self.admin.alter_consumer_group_offsets([offsets]))
        got = result(self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))[group]
        equal([p.offset for p in got.topic_partitions], [3], "offsets altered")
        result(self.admin.delete_consumer_groups([group]))
        check(group not in [g.group_id for g in self.admin.list_consumer_groups().result(60).valid], "the group is still listed")
        return "listed, described, reset and deleted"

    def delete_topics(self):
        result(self.admin.delete_topics(sorted(self.topics)))
        until("none is listed", lambda: not self.topics & set(self.admin.list_topics(timeout=10).topics))
        return f"{len(self.topics)} topics deleted; librdkafka {libversion()[0]}, confluent-kafka {version()}"


def load(bootstrap, topic):
    conf = common(bootstrap) | {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20}
    admin = AdminClient(conf)  # kept: its calls end with it
    result(admin.create_topics([NewTopic(topic, 3, 1)]))
    stop, acks, seen, n = Stop(), Acks(), Seen(), 0
    reader = {**conf, "group.id": topic + "-readers", "enable.auto.commit": False, "auto.offset.reset": "earliest",
              "session.timeout.ms": 10000, "heartbeat.interval.ms": 300}
    members = [Member(reader, topic, seen) for _ in range(2)]
    p = Producer({**conf, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 120000})
    while not stop:
        for _ in range(10):
            p.produce(topic, b"%d" % n, partition=n % 3, on_delivery=lambda err, m: acks.done(err))
            n += 1
        while n - acks.count > 1000 and not acks.errors:
            p.poll(0.1)
        p.poll(0)
        time.sleep(0.01)
    p.flush(120)
    code = finish_load(acks, n, seen)
    for m in members:
        m.stop()
    return code


if __name__ == "__main__":
    main(lambda bootstrap: Steps(bootstrap).all(), load)

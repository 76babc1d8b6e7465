"""kafka-python: see doc.go one folder up."""

import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from steps import CODECS, TROUBLE, Acks, Seen, Stop, check, equal, finish_load, login, main, prefix, until, values

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigFilterType, ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import CommitFailedError, KafkaError, TopicAlreadyExistsError


def common(bootstrap):
    """What every client here is configured with."""
    conf = {"bootstrap_servers": bootstrap}
    if login():
        conf |= dict(zip(("sasl_mechanism", "sasl_plain_username", "sasl_plain_password"), login())) | {"security_protocol": "SASL_PLAINTEXT"}
    return conf


def subscribe(consumer, topic, listener=None):
    """Subscribes to a topic and learns its partitions before a poll joins the group. Without them kafka-python 3.0.12 assigns
    nothing, and joins again once it has them. If the poll that does so ends before the answer comes, no later one looks at the
    answer: the client thinks that there is nothing to join, sends no heartbeats, and stands for ever, on Kafka, too."""
    consumer.subscribe([topic], listener=listener)
    until(f"{topic} has partitions", lambda: consumer.partitions_for_topic(topic))


class Member(threading.Thread, ConsumerRebalanceListener):
    """One member of a group. It commits before each poll, so what it gives up in one is committed."""

    def __init__(self, conf, topic, seen):
        super().__init__(daemon=True)
        self.conf, self.topic, self.seen = conf, topic, seen
        self.owned, self.stopping, self.error = set(), threading.Event(), None
        self.start()

    def on_partitions_assigned(self, assigned):
        self.owned |= {p.partition for p in assigned}

    def on_partitions_revoked(self, revoked):
        self.owned -= {p.partition for p in revoked}

    def on_partitions_lost(self, lost):
        self.owned -= {p.partition for p in lost}

    def _commit(self):
        try:
            self.consumer.commit()
        except CommitFailedError:
            pass  # the group has moved on: what was read is read again
        except KafkaError as err:
            if not err.retriable:
                raise

    def run(self):
        try:
            self.consumer = KafkaConsumer(**self.conf)
            subscribe(self.consumer, self.topic, self)
            while not self.stopping.is_set():
                try:
                    batches = self.consumer.poll(timeout_ms=100, max_records=50)
                except KafkaError as err:
                    if not err.retriable:
                        raise
                    continue
                for part, records in batches.items():
                    for r in records:
                        self.seen.add(part.partition, r.value)
                if batches:
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
        self.admin = KafkaAdminClient(**self.conf)
        self.name = prefix("kafka-python")
        self.topics = set()

    def all(self):
        produce = [(f"produce-{c}", lambda c=c: self.produce(c)) for c in CODECS]
        return [("topics", self.create), ("configs", self.configs), *produce, ("idempotent", self.idempotent), ("group", self.group),
                ("commits", self.commits), ("time", self.time), ("delete-records", self.delete_records), ("groups", self.groups),
                ("delete-topics", self.delete_topics)]

    def topic(self, suffix, partitions=1, config=None):
        name = f"{self.name}-{suffix}"
        self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config)])
        self.topics.add(name)
        until(f"{name} is listed", lambda: name in self.admin.list_topics())
        return name

    def consumer(self, **conf):
        return KafkaConsumer(**{**self.conf, "enable_auto_commit": False, "auto_offset_reset": "earliest", **conf})

    def read(self, topic, n, partition=0, offset=None):
        """The records of a partition up to its end: there must be n."""
        c, part = self.consumer(), TopicPartition(topic, partition)
        c.assign([part])
        end = c.end_offsets([part])[part]
        if offset is None:
            c.seek_to_beginning(part)
        else:
            c.seek(part, offset)
        out = []

        def all_read():
            out.extend(r for records in c.poll(timeout_ms=200).values() for r in records)
            return c.position(part) >= end

        until(f"{topic} is read to {end}", all_read)
        c.close()
        equal(len(out), n, f"records in {topic}")
        return out

    def partitions(self, name):
        return len(self.admin.describe_topics([name])[0]["partitions"])

    def create(self):
        name = self.topic("admin", 3, {"retention.ms": "3600000"})
        equal(self.partitions(name), 3, "partitions")
        try:
            self.admin.create_topics([NewTopic(name, 3, 1)])
            check(False, "a topic was created twice")
        except TopicAlreadyExistsError:
            pass
        self.admin.create_partitions({name: NewPartitions(5)})
        until("5 partitions", lambda: self.partitions(name) == 5)
        return "created with 3 partitions, grown to 5"

    def configs(self):
        name = f"{self.name}-admin"

        def get(key):
            resource = ConfigResource(ConfigResourceType.TOPIC, name)
            return self.admin.describe_configs([resource], config_filter=ConfigFilterType.ALL)["topic"][name][key]

        equal(get("retention.ms")["value"], "3600000", "given at creation")
        self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})])
        until("the change is seen", lambda: get("retention.ms")["value"] == "7200000")
        self.admin.reset_configs([ConfigResource(ConfigResourceType.TOPIC, name, ["retention.ms"])])
        until("the default is back", lambda: get("retention.ms")["value"] != "7200000")
        return "described, set and reset"

    def produce(self, codec):
        topic, want = self.topic(codec), values(300)
        p = KafkaProducer(**self.conf, compression_type=None if codec == "none" else codec, linger_ms=5)
        sent = [p.send(topic, value, key, headers=headers) for key, value, headers in want]
        p.flush(60)
        equal([f.get(60).offset for f in sent], list(range(300)), "acknowledged offsets")
        p.close()
        got = [(r.key, r.value, list(r.headers)) for r in self.read(topic, 300)]
        equal(got, want, "records")
        return "300 records in order with keys and headers"

    def fill(self, topic, partitions, begin, end):
        p = KafkaProducer(**self.conf, enable_idempotence=True, batch_size=1000)
        sent = [p.send(topic, b"%d" % i, partition=i % partitions) for i in range(begin, end)]
        p.flush(60)
        for f in sent:
            f.get(60)
        p.close()

    def idempotent(self):
        topic = self.topic("idempotent", 2)
        self.fill(topic, 2, 0, 1000)
        for part in (0, 1):
            equal([int(r.value) for r in self.read(topic, 500, part)], list(range(part, 1000, 2)), f"partition {part}")
        return "1000 records once and in order"

    def group(self):
        return "; ".join(self.rebalance(a) for a in (RangePartitionAssignor, RoundRobinPartitionAssignor))

    def rebalance(self, assignor):
        topic, group, seen = self.topic("group-" + assignor.name, 6), f"{self.name}-group-{assignor.name}", Seen()
        conf = {**self.conf, "group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest",
                "partition_assignment_strategy": [assignor], "session_timeout_ms": 10000, "heartbeat_interval_ms": 300}
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
        c = self.consumer(group_id=group)
        equal([c.committed(TopicPartition(topic, p)) for p in range(6)], [110] * 6, "committed")
        c.close()
        return f"{assignor.name}: 1, 3 and 2 members read 660 once"

    def commits(self):
        topic, group = self.topic("commits"), f"{self.name}-commits"
        self.fill(topic, 1, 0, 10)
        part = TopicPartition(topic, 0)
        c = self.consumer(group_id=group)
        c.commit({part: OffsetAndMetadata(7, "seven", -1)})
        got = c.committed(part, metadata=True)
        equal((got.offset, got.metadata), (7, "seven"), "committed")
        subscribe(c, topic)
        first = []
        until("a record", lambda: first.extend(r for rs in c.poll(timeout_ms=200).values() for r in rs) or first)
        c.close()
        equal(first[0].offset, 7, "where the group goes on")
        return "offset and metadata kept, the group goes on there"

    def time(self):
        topic, begin = self.topic("time"), int(time.time() * 1000) - 100_000
        p = KafkaProducer(**self.conf, linger_ms=50)
        for i in range(100):
            p.send(topic, b"%d" % i, timestamp_ms=begin + 1000 * i)
        p.close()
        c, part = self.consumer(), TopicPartition(topic, 0)
        for at, want in ((begin + 41_500, 42), (begin, 0), (begin + 99_000, 99), (begin + 99_001, None)):
            got = c.offsets_for_times({part: at})[part]
            equal(got and got.offset, want, f"offset at {at - begin} ms")
        equal((c.beginning_offsets([part])[part], c.end_offsets([part])[part]), (0, 100), "ends")
        c.assign([part])
        c.seek(part, 42)
        first = []
        until("a record", lambda: first.extend(r for rs in c.poll(timeout_ms=200).values() for r in rs) or first)
        c.close()
        equal(int(first[0].value), 42, "the record at 42")
        return "offsets by time, seek"

    def delete_records(self):
        topic = f"{self.name}-time"
        self.admin.delete_records({TopicPartition(topic, 0): 30})
        equal(self.read(topic, 70)[0].offset, 30, "first offset")
        return "log starts at 30"

    def groups(self):
        group = f"{self.name}-commits"

        def listed():
            return group in [g["group_id"] for g in self.admin.list_groups()]

        check(listed(), "the group is not listed")
        described = self.admin.describe_groups([group])[group]
        equal((described["group_state"], len(described["members"])), ("Empty", 0), "described")
        self.admin.delete_groups([group])
        check(not listed(), "the group is still listed")
        return "listed, described and deleted"

    def delete_topics(self):
        self.admin.delete_topics(sorted(self.topics))
        until("none is listed", lambda: not self.topics & set(self.admin.list_topics()))
        return f"{len(self.topics)} topics deleted; kafka-python {kafka.__version__}"


def load(bootstrap, topic):
    conf = common(bootstrap) | {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200, "retry_backoff_ms": 20}
    KafkaAdminClient(**conf).create_topics([NewTopic(topic, 3, 1)])
    stop, acks, seen, n = Stop(), Acks(), Seen(), 0
    reader = {**conf, "group_id": topic + "-readers", "enable_auto_commit": False, "auto_offset_reset": "earliest",
              "session_timeout_ms": 10000, "heartbeat_interval_ms": 300}
    members = [Member(reader, topic, seen) for _ in range(2)]
    p = KafkaProducer(**conf, enable_idempotence=True, linger_ms=1, delivery_timeout_ms=120000, max_block_ms=120000)
    while not stop:
        for _ in range(10):
            f = p.send(topic, b"%d" % n, partition=n % 3)
            f.add_callback(lambda _: acks.done())
            f.add_errback(acks.done)
            n += 1
        while n - acks.count > 1000 and not acks.errors:
            time.sleep(0.05)
        time.sleep(0.01)
    p.flush(120)
    code = finish_load(acks, n, seen)
    for m in members:
        m.stop()
    return code


if __name__ == "__main__":
    main(lambda bootstrap: Steps(bootstrap).all(), load)

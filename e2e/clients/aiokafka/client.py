"""aiokafka: see doc.go one folder up."""

import asyncio
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))
from steps import CODECS, PATIENCE, Acks, Seen, Stop, check, equal, finish_load, login, main, prefix, values

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError


def common(bootstrap):
    """What every client here is configured with."""
    conf = {"bootstrap_servers": bootstrap}
    if login():
        conf |= dict(zip(("sasl_mechanism", "sasl_plain_username", "sasl_plain_password"), login())) | {"security_protocol": "SASL_PLAINTEXT"}
    return conf


async def until(what, holds):
    """Polls until the coroutine holds() gives true."""
    end = time.monotonic() + PATIENCE
    while not await holds():
        check(time.monotonic() < end, f"not within {PATIENCE} s: {what}")
        await asyncio.sleep(0.02)


def no_error(response):
    """Raises what an admin answer says about a topic."""
    for topic in getattr(response, "topic_errors", None) or getattr(response, "topic_error_codes", []):
        equal(topic[1], 0, f"error of {topic[0]}: {topic}")


class Member(ConsumerRebalanceListener):
    """One member of a group. A task reads and commits; what it gives up is committed before."""

    def __init__(self, conf, topic, seen):
        self.consumer, self.seen = AIOKafkaConsumer(**conf), seen
        self.owned, self.busy = set(), asyncio.Lock()
        self.consumer.subscribe([topic], listener=self)
        self.stopping = False
        self.task = asyncio.create_task(self._run())

    async def on_partitions_revoked(self, revoked):
        async with self.busy:  # the batch that is being counted is committed before
            self.owned -= {p.partition for p in revoked}

    async def on_partitions_assigned(self, assigned):
        self.owned |= {p.partition for p in assigned}

    async def _run(self):
        await self.consumer.start()
        while not self.stopping:
            try:
                batches = await self.consumer.getmany(timeout_ms=50, max_records=50)
            except KafkaError as err:
                if not err.retriable:
                    raise
                batches = {}
            if batches:
                async with self.busy:  # not around getmany, which may wait for what the listener must let go
                    for part, records in batches.items():
                        for r in records:
                            self.seen.add(part.partition, r.value)
                    await self._commit({p: rs[-1].offset + 1 for p, rs in batches.items()})
            await asyncio.sleep(0)
        await self.consumer.stop()

    async def _commit(self, offsets):
        try:
            await self.consumer.commit(offsets)
        except (CommitFailedError, IllegalStateError):
            pass  # the group has moved on: what was read is read again
        except KafkaError as err:
            if not err.retriable:
                raise

    async def stop(self):
        self.stopping = True
        await asyncio.wait_for(self.task, 60)


class Steps:
    def __init__(self, bootstrap):
        self.conf = common(bootstrap)
        self.name = prefix("aiokafka")
        self.topics = set()
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.start())

    async def start(self):
        self.admin = AIOKafkaAdminClient(**self.conf)
        await self.admin.start()

    def all(self):
        produce = [(f"produce-{c}", lambda c=c: self.produce(c)) for c in CODECS]
        steps = [("topics", self.create), ("configs", self.configs), *produce, ("idempotent", self.idempotent), ("group", self.group),
                 ("commits", self.commits), ("time", self.time), ("delete-records", self.delete_records), ("groups", self.groups),
                 ("delete-topics", self.delete_topics)]
        return [(name, lambda f=f: self.loop.run_until_complete(f())) for name, f in steps]

    async def topic(self, suffix, partitions=1, config=None):
        name = f"{self.name}-{suffix}"
        no_error(await self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=config or {})]))
        self.topics.add(name)

        async def listed():
            return name in await self.admin.list_topics()

        await until(f"{name} is listed", listed)
        return name

    async def read(self, topic, n, partition=0):
        """The records of a partition up to its end: there must be n."""
        part, out = TopicPartition(topic, partition), []
        async with AIOKafkaConsumer(**self.conf, enable_auto_commit=False, auto_offset_reset="earliest") as c:
            c.assign([part])
            end = (await c.end_offsets([part]))[part]
            await c.seek_to_beginning(part)

            async def all_read():
                out.extend(r for records in (await c.getmany(timeout_ms=200)).values() for r in records)
                return await c.position(part) >= end

            await until(f"{topic} is read to {end}", all_read)
        equal(len(out), n, f"records in {topic}")
        return out

    async def partitions(self, name):
        return len((await self.admin.describe_topics([name]))[0]["partitions"])

    async def create(self):
        name = await self.topic("admin", 3, {"retention.ms": "3600000"})
        equal(await self.partitions(name), 3, "partitions")
        again = await self.admin.create_topics([NewTopic(name, 3, 1)])
        equal(again.topic_errors[0][1], 36, "creating it again")
        await self.admin.create_partitions({name: NewPartitions(5)})

        async def grown():
            return await self.partitions(name) == 5

        await until("5 partitions", grown)
        return "created with 3 partitions, grown to 5"

    async def configs(self):
        name = f"{self.name}-admin"

        async def get(key):
            answer = await self.admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
            return {c[0]: c[1] for c in answer[0].resources[0][4]}[key]

        equal(await get("retention.ms"), "3600000", "given at creation")
        await self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "7200000"})])

        async def seen():
            return await get("retention.ms") == "7200000"

        await until("the change is seen", seen)
        return "described and set"

    async def produce(self, codec):
        topic, want = await self.topic(codec), values(300)
        async with AIOKafkaProducer(**self.conf, compression_type=None if codec == "none" else codec, linger_ms=5) as p:
            sent = [await p.send(topic, value, key, headers=headers) for key, value, headers in want]
            equal([(await f).offset for f in sent], list(range(300)), "acknowledged offsets")
        got = [(r.key, r.value, list(r.headers)) for r in await self.read(topic, 300)]
        equal(got, want, "records")
        return "300 records in order with keys and headers"

    async def fill(self, topic, partitions, begin, end):
        async with AIOKafkaProducer(**self.conf, enable_idempotence=True, max_batch_size=1000) as p:
            for f in [await p.send(topic, b"%d" % i, partition=i % partitions) for i in range(begin, end)]:
                await f

    async def idempotent(self):
        topic = await self.topic("idempotent", 2)
        await self.fill(topic, 2, 0, 1000)
        for part in (0, 1):
            equal([int(r.value) for r in await self.read(topic, 500, part)], list(range(part, 1000, 2)), f"partition {part}")
        return "1000 records once and in order"

    async def group(self):
        return "; ".join([await self.rebalance(a) for a in (RangePartitionAssignor, RoundRobinPartitionAssignor)])

    async def rebalance(self, assignor):
        topic, group, seen = await self.topic("group-" + assignor.name, 6), f"{self.name}-group-{assignor.name}", Seen()
        conf = {**self.conf, "group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest",
                "partition_assignment_strategy": [assignor], "session_timeout_ms": 10000, "heartbeat_interval_ms": 300}
        await self.fill(topic, 6, 0, 600)

        async def owned(*want):
            async def holds():
                for m in members:
                    if m.task.done():
                        m.task.result()
                return sorted(len(m.owned) for m in members) == list(want)

            await until(f"the members own {want}", holds)

        async def read(n):
            async def holds():
                return len(seen) == n

            await until(f"{n} are read", holds)

        members = [Member(conf, topic, seen)]
        await owned(6)
        members += [Member(conf, topic, seen), Member(conf, topic, seen)]
        await owned(2, 2, 2)
        equal(set().union(*(m.owned for m in members)), set(range(6)), "partitions of the three")
        await read(600)
        await members.pop().stop()
        await owned(3, 3)
        await self.fill(topic, 6, 600, 660)
        await read(660)
        for m in members:
            await m.stop()
        equal(seen.again, 0, "records read again")
        committed = await self.admin.list_consumer_group_offsets(group)
        equal({p.partition: o.offset for p, o in committed.items()}, {p: 110 for p in range(6)}, "committed")
        return f"{assignor.name}: 1, 3 and 2 members read 660 once"

    async def commits(self):
        topic, group = await self.topic("commits"), f"{self.name}-commits"
        await self.fill(topic, 1, 0, 10)
        part = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(**self.conf, group_id=group, enable_auto_commit=False) as c:
            c.assign([part])
            await c.commit({part: OffsetAndMetadata(7, "seven")})
            equal(await c.committed(part), 7, "committed")
        got = (await self.admin.list_consumer_group_offsets(group))[part]
        equal((got.offset, got.metadata), (7, "seven"), "committed")
        async with AIOKafkaConsumer(topic, **self.conf, group_id=group, enable_auto_commit=False) as c:
            first = await asyncio.wait_for(c.getone(), PATIENCE)
            equal(first.offset, 7, "where the group goes on")
        return "offset and metadata kept, the group goes on there"

    async def time(self):
        topic, begin = await self.topic("time"), int(time.time() * 1000) - 100_000
        async with AIOKafkaProducer(**self.conf, linger_ms=50) as p:
            for f in [await p.send(topic, b"%d" % i, timestamp_ms=begin + 1000 * i) for i in range(100)]:
                await f
        part = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(**self.conf, enable_auto_commit=False) as c:
            for at, want in ((begin + 41_500, 42), (begin, 0), (begin + 99_000, 99), (begin + 99_001, None)):
                got = (await c.offsets_for_times({part: at}))[part]
                equal(got and got.offset, want, f"offset at {at - begin} ms")
            equal((await c.beginning_offsets([part]), await c.end_offsets([part])), ({part: 0}, {part: 100}), "ends")
            c.assign([part])
            c.seek(part, 42)
            equal(int((await asyncio.wait_for(c.getone(), PATIENCE)).value), 42, "the record at 42")
        return "offsets by time, seek"

    async def delete_records(self):
        topic = f"{self.name}-time"
        low = await self.admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=30)})
        equal(list(low.values()), [30], "low watermark")
        equal((await self.read(topic, 70))[0].offset, 30, "first offset")
        return "log starts at 30"

    async def groups(self):
        group = f"{self.name}-commits"
        check(group in [g[0] for g in await self.admin.list_consumer_groups()], "the group is not listed")
        described = (await self.admin.describe_consumer_groups([group]))[0].groups[0]
        equal((described[0], described[1], described[2], described[5]), (0, group, "Empty", []), "described")
        return "listed and described"

    async def delete_topics(self):
        no_error(await self.admin.delete_topics(sorted(self.topics)))

        async def gone():
            return not self.topics & set(await self.admin.list_topics())

        await until("none is listed", gone)
        await self.admin.close()
        return f"{len(self.topics)} topics deleted; aiokafka {aiokafka.__version__}"


async def loading(bootstrap, topic):
    conf = common(bootstrap) | {"retry_backoff_ms": 50}
    admin = AIOKafkaAdminClient(**conf)
    await admin.start()
    no_error(await admin.create_topics([NewTopic(topic, 3, 1)]))
    stop, acks, seen, n = Stop(), Acks(), Seen(), 0
    reader = {**conf, "group_id": topic + "-readers", "enable_auto_commit": False, "auto_offset_reset": "earliest",
              "session_timeout_ms": 10000, "heartbeat_interval_ms": 300}
    members = [Member(reader, topic, seen) for _ in range(2)]
    p = AIOKafkaProducer(**conf, enable_idempotence=True, linger_ms=1, request_timeout_ms=120000)
    await p.start()
    while not stop:
        for _ in range(10):
            f = await p.send(topic, b"%d" % n, partition=n % 3)
            f.add_done_callback(lambda f: acks.done(f.exception()))
            n += 1
        while n - acks.count > 1000 and not acks.errors:
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.01)
    await asyncio.wait_for(p.stop(), 120)
    code = await asyncio.to_thread(finish_load, acks, n, seen)
    for m in members:
        await m.stop()
    await admin.close()
    return code


if __name__ == "__main__":
    main(lambda bootstrap: Steps(bootstrap).all(), lambda bootstrap, topic: asyncio.run(loading(bootstrap, topic)))

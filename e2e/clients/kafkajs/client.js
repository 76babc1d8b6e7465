// kafkajs: see doc.go one folder up. NODE_PATH names the folder of its modules.
'use strict'
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, PartitionAssigners, logLevel } = require('kafkajs')
const { version } = require('kafkajs/package.json')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
const zstd = new Promise(resolve => require('zstd-codec').ZstdCodec.run(z => resolve(new z.Streaming())))
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd).decompress(buffer)),
})

const patience = 60_000 // milliseconds that a step waits for what must come
const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

function check(holds, what) {
  if (!holds) throw new Error(what)
}

function equal(got, want, what) {
  const [g, w] = [JSON.stringify(got), JSON.stringify(want)]
  check(g === w, `${what}: got ${g}, want ${w}`)
}

async function until(what, holds) {
  for (const end = Date.now() + patience; !(await holds()); await pause(20)) {
    check(Date.now() < end, `not within ${patience} ms: ${what}`)
  }
}

const range = n => Array.from({ length: n }, (_, i) => i)

function connect(bootstrap, name) {
  const [mechanism, username, password] = (process.env.KAFKA_LOGIN || '').split(' ')
  const sasl = mechanism ? { mechanism: mechanism.toLowerCase(), username, password } : undefined
  return new Kafka({ clientId: name, brokers: [bootstrap], logLevel: logLevel.NOTHING, sasl,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 200 } })
}

// Whether a connection ended in the middle of a login. kafkajs takes that for a refused
// login, and does not try again by itself.
const cutLogin = err => err.name === 'KafkaJSSASLAuthenticationError' && /connection|ECONN|EPIPE/i.test(err.message)

// A member of a group. kafkajs commits for it after each batch and before it gives partitions up.
class Member {
  constructor(kafka, groupId, topic, seen, assigner = PartitionAssigners.roundRobin) {
    this.owned = []
    this.consumer = kafka.consumer({ groupId, partitionAssigners: [assigner], sessionTimeout: 10_000, heartbeatInterval: 300,
      rebalanceTimeout: 20_000, maxWaitTimeInMs: 100, retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 200 } })
    this.consumer.on(this.consumer.events.GROUP_JOIN, e => { this.owned = e.payload.memberAssignment[topic] || [] })
    this.consumer.on(this.consumer.events.CRASH, e => {
      if (e.payload.restart) return
      if (cutLogin(e.payload.error)) this.ready = this.begin(topic, seen)
      else this.error = e.payload.error
    })
    this.ready = this.begin(topic, seen)
  }

  async begin(topic, seen) {
    for (;;) {
      try {
        await this.consumer.connect()
        await this.consumer.subscribe({ topics: [topic], fromBeginning: true })
        return await this.consumer.run({ autoCommitThreshold: 1, eachMessage: async ({ partition, message }) => {
          const before = seen.distinct.size
          seen.distinct.add(`${partition} ${message.value}`)
          if (seen.distinct.size === before) seen.again++
        } })
      } catch (err) {
        if (!cutLogin(err)) throw err
        await pause(100)
      }
    }
  }

  async stop() {
    await this.ready
    await this.consumer.disconnect()
    if (this.error) throw this.error
  }
}

class Steps {
  constructor(bootstrap) {
    this.name = `kafkajs-${Date.now()}`
    this.kafka = connect(bootstrap, this.name)
    this.admin = this.kafka.admin()
    this.topics = []
  }

  all() {
    const codecs = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }
    const produce = Object.entries(codecs).map(([c, type]) => [`produce-${c}`, () => this.produce(c, CompressionTypes[type])])
    const names = { topics: 'create', configs: 'configs', idempotent: 'idempotent', group: 'group', commits: 'commits', time: 'time',
      'delete-records': 'deleteRecords', groups: 'groups', 'delete-topics': 'deleteTopics' }
    const rest = Object.entries(names).map(([name, f]) => [name, () => this[f]()])
    return [...rest.slice(0, 2), ...produce, ...rest.slice(2)]
  }

  async topic(suffix, numPartitions = 1, configEntries = []) {
    const topic = `${this.name}-${suffix}`
    check(await this.admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] }), `${topic} exists`)
    this.topics.push(topic)
    return topic
  }

  async send(topic, messages, options = {}, rest = {}) {
    const producer = this.kafka.producer({ allowAutoTopicCreation: false, ...options })
    await producer.connect()
    const answers = await producer.send({ topic, messages, ...rest })
    await producer.disconnect()
    return answers
  }

  // The records of a partition from the offset up to its end: there must be n.
  async read(topic, n, partition = 0, offset = '-2') {
    const ends = await this.admin.fetchTopicOffsets(topic)
    const end = Number(ends.find(p => p.partition === partition).high)
    const consumer = this.kafka.consumer({ groupId: `${topic}-${partition}-${Date.now()}`, maxWaitTimeInMs: 100 })
    const out = []
    let at = 0
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async m => {
      if (m.partition !== partition) return
      out.push(m.message)
      at = Number(m.message.offset) + 1
    } })
    if (offset !== '-2') consumer.seek({ topic, partition, offset })
    await until(`${topic} is read to ${end}`, async () => at >= end)
    await consumer.disconnect()
    equal(out.length, n, `records in ${topic}`)
    return out
  }

  async partitions(topic) {
    const { topics } = await this.admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.length
  }

  async create() {
    await this.admin.connect()
    const topic = await this.topic('admin', 3, [{ name: 'retention.ms', value: '3600000' }])
    equal(await this.partitions(topic), 3, 'partitions')
    equal(await this.admin.createTopics({ topics: [{ topic, numPartitions: 3 }] }), false, 'creating it again')
    await this.admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
    await until('5 partitions', async () => (await this.partitions(topic)) === 5)
    return 'created with 3 partitions, grown to 5'
  }

  async configs() {
    const name = `${this.name}-admin`
    const get = async key => {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name, configNames: [key] }]
      return (await this.admin.describeConfigs({ resources })).resources[0].configEntries[0]
    }
    equal((await get('retention.ms')).configValue, '3600000', 'given at creation')
    const set = configEntries => this.admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries }] })
    await set([{ name: 'retention.ms', value: '7200000' }])
    await until('the change is seen', async () => (await get('retention.ms')).configValue === '7200000')
    await set([])
    await until('the default is back', async () => (await get('retention.ms')).isDefault)
    return 'described, set and reset'
  }

  async produce(codec, compression) {
    const topic = await this.topic(codec)
    const want = range(300).map(i => [`key-${i}`, `value ${i} ${'lorem ipsum '.repeat(8)}`, `${i}`])
    const answers = await this.send(topic, want.map(([key, value, n]) => ({ key, value, headers: { n } })), {}, { compression })
    equal(answers.map(a => [a.partition, a.errorCode, a.baseOffset]), [[0, 0, '0']], 'acknowledged')
    const got = (await this.read(topic, 300)).map(m => [`${m.key}`, `${m.value}`, `${m.headers.n}`])
    equal(got, want, 'records')
    return '300 records in order with keys and headers'
  }

  async fill(topic, partitions, begin, end) {
    const producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })
    await producer.connect()
    const all = range(end - begin).map(i => ({ value: `${begin + i}`, partition: (begin + i) % partitions }))
    for (let i = 0; i < all.length; i += 50) await producer.send({ topic, messages: all.slice(i, i + 50) })
    await producer.disconnect()
  }

  async idempotent() {
    const topic = await this.topic('idempotent', 2)
    await this.fill(topic, 2, 0, 1000)
    for (const p of [0, 1]) {
      equal((await this.read(topic, 500, p)).map(m => Number(m.value)), range(500).map(i => 2 * i + p), `partition ${p}`)
    }
    return '1000 records once and in order'
  }

  async group() {
    const [topic, groupId, seen] = [await this.topic('group', 6), `${this.name}-group`, { distinct: new Set(), again: 0 }]
    await this.fill(topic, 6, 0, 600)
    const members = [new Member(this.kafka, groupId, topic, seen)]
    const own = (...want) => until(`the members own ${want}`, () => `${members.map(m => m.owned.length).sort()}` === `${want}`)
    const read = n => until(`${n} are read`, () => seen.distinct.size === n)
    await own(6)
    members.push(new Member(this.kafka, groupId, topic, seen), new Member(this.kafka, groupId, topic, seen))
    await own(2, 2, 2)
    equal(members.flatMap(m => m.owned).sort(), range(6), 'partitions of the three')
    await read(600)
    await members.pop().stop()
    await own(3, 3)
    await this.fill(topic, 6, 600, 660)
    await read(660)
    for (const m of members) await m.stop()
    equal(seen.again, 0, 'records read again')
    const [{ partitions }] = await this.admin.fetchOffsets({ groupId, topics: [topic] })
    equal(partitions.map(p => p.offset), Array(6).fill('110'), 'committed')
    return '1, 3 and 2 members read 660 once'
  }

  async commits() {
    const [topic, groupId] = [await this.topic('commits'), `${this.name}-commits`]
    await this.fill(topic, 1, 0, 10)
    await this.admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '7' }] })
    const [{ partitions }] = await this.admin.fetchOffsets({ groupId, topics: [topic] })
    equal(partitions.map(p => p.offset), ['7'], 'committed')
    const consumer = this.kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
    let first
    await consumer.connect()
    await consumer.subscribe({ topics: [topic] })
    await consumer.run({ eachMessage: async ({ message }) => { first = first || message.offset } })
    await until('a record', () => first)
    await consumer.disconnect()
    equal(first, '7', 'where the group goes on')
    return 'offset kept, the group goes on there'
  }

  async time() {
    const [topic, begin] = [await this.topic('time'), Date.now() - 100_000]
    await this.send(topic, range(100).map(i => ({ value: `${i}`, timestamp: `${begin + 1000 * i}` })))
    for (const [at, want] of [[41_500, '42'], [0, '0'], [99_000, '99'], [99_001, '100']]) { // past the last: its end
      equal((await this.admin.fetchTopicOffsetsByTimestamp(topic, begin + at))[0].offset, want, `offset at ${at} ms`)
    }
    const [{ low, high }] = await this.admin.fetchTopicOffsets(topic)
    equal([low, high], ['0', '100'], 'ends')
    equal(Number((await this.read(topic, 58, 0, '42'))[0].value), 42, 'the record at 42')
    return 'offsets by time, seek'
  }

  async deleteRecords() {
    const topic = `${this.name}-time`
    await this.admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '30' }] })
    equal((await this.read(topic, 70))[0].offset, '30', 'first offset')
    return 'log starts at 30'
  }

  async groups() {
    const groupId = `${this.name}-commits`
    const listed = async () => (await this.admin.listGroups()).groups.some(g => g.groupId === groupId)
    check(await listed(), 'the group is not listed')
    const { groups: [group] } = await this.admin.describeGroups([groupId])
    equal([group.state, group.members.length], ['Empty', 0], 'described')
    await this.admin.deleteGroups([groupId])
    check(!(await listed()), 'the group is still listed')
    return 'listed, described and deleted'
  }

  async deleteTopics() {
    await this.admin.deleteTopics({ topics: this.topics })
    await until('none is listed', async () => !(await this.admin.listTopics()).some(t => this.topics.includes(t)))
    await this.admin.disconnect()
    return `${this.topics.length} topics deleted; kafkajs ${version}`
  }
}

async function steps(bootstrap) {
  let failed = 0
  for (const [name, step] of new Steps(bootstrap).all()) {
    const begin = Date.now()
    try {
      console.log(`ok ${name}: ${await step()} (${((Date.now() - begin) / 1000).toFixed(1)} s)`)
    } catch (err) {
      failed++
      console.log(`FAIL ${name}: ${err.message}`)
      console.error(err)
    }
  }
  return failed ? 1 : 0
}

async function load(bootstrap, topic) {
  const kafka = connect(bootstrap, topic)
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] })
  await admin.disconnect()
  let stop = false
  process.stdin.resume().on('end', () => { stop = true })
  const seen = { distinct: new Set(), again: 0 }
  const members = range(2).map(() => new Member(kafka, `${topic}-readers`, topic, seen))
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false,
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 200 } })
  await producer.connect()
  let n = 0
  while (!stop) {
    await producer.send({ topic, messages: range(20).map(i => ({ value: `${n + i}`, partition: (n + i) % 3 })) })
    n += 20
    if (n % 200 === 0) console.log(`acked ${n}`)
    await pause(10)
  }
  console.log(`produced ${n}`)
  await until(`the group has read ${n}`, () => seen.distinct.size >= n)
  console.log(`ok load: the group read ${seen.distinct.size}, ${seen.again} of them again`)
  await producer.disconnect()
  for (const m of members) await m.stop()
  return 0
}

async function main() {
  const [mode, bootstrap, topic] = process.argv.slice(2)
  if (mode === 'steps' && bootstrap) return steps(bootstrap)
  if (mode === 'load' && topic) return load(bootstrap, topic)
  console.error('usage: client.js steps BOOTSTRAP | load BOOTSTRAP TOPIC')
  return 2
}

main().then(code => process.exit(code), err => {
  console.log(`FAIL: ${err.message}`)
  console.error(err)
  process.exit(1)
})

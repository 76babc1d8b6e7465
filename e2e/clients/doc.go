// Package clients tries foreign clients on a real mesh. What one client wrote is
// read with another; what a client was told is compared with what is stored.
//
//   - kcat and the README's tour run as they are.
//   - Each family of Kafka clients has a script in the folder of its name: java,
//     librdkafka, sarama, kafka-python, aiokafka, kafkajs, franz-go. It runs
//     against any Kafka server, so that one can see what real Kafka answers.
//   - franz-go's own test suite runs unchanged.
//   - Requests in every version of each API are answered as real Kafka answered
//     them (folder answers).
//   - Kafka's own command-line tools do what tools/commands.txt says; the output
//     is compared with what real Kafka printed (folder tools).
//
// A script knows two commands. "steps BOOTSTRAP" administers topics, produces
// with each codec and idempotently, reads, rebalances a group of three, commits,
// seeks by time, and prints one line for each step: "ok NAME: what was seen", or
// "FAIL NAME: why". "load BOOTSTRAP TOPIC" makes the topic with three partitions,
// produces the number n to partition n modulo 3, reads with two members of the
// group TOPIC-readers, and prints "acked N" now and then; when its standard input
// ends it prints "produced N" once all are acknowledged, waits until the group has
// read each of them, and prints "ok load: …". Both end with 0 if all went well.
//
// $KAFKA_LOGIN makes it log in: a mechanism, a user and a password.
//
// install.sh puts what the scripts need into the user's cache folder. What a
// person does not have is skipped with the reason; where CI=true says that nobody
// can install it later, its absence fails.
package clients

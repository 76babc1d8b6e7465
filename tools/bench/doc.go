// Command bench puts the same work on Rhumb and on its peers, one after the
// other on one machine, and prints how they compare.
//
// # What is compared
//
// Each system is two clusters on this machine, one of which copies to the other:
// two regions of Rhumb, two Kafka brokers with MirrorMaker 2 between them, two
// clusters of Pulsar with geo-replication, or two NATS servers with a mirrored
// stream. "-fsync" is a peer that flushes before it answers, which Rhumb always
// does, and Pulsar here, too.
//
// # Phases
//
// The first four use the first cluster alone, with nothing that is copied.
//
//	produce-1k    as fast as it takes them, records of 1 KiB
//	consume-1k    what produce-1k stored, from the beginning
//	produce-100b  records of 100 bytes
//	ack-5k        5,000 records/s of 1 KiB: from when a record was due to its answer
//	live-5k       the same, until a consumer of the second cluster has it
//	copy-1k       produced as fast as possible, until the second cluster has all
//	copy-100b     the same with 100 bytes
//
// # Bad lines
//
// With -lines, each cluster lives in a network namespace of its own, and the way
// between them leads through TUN devices and this program, which delays, loses and
// throttles IP packets: TCP and QUIC meet the same line. Clients reach either cluster
// without delay. That is possible on Linux, as root; nothing of the machine's own
// network changes, since all of it happens in a namespace, too. A system starts anew on
// each line. Then there are two phases, of records of 1 KiB:
//
//	live   2,000 records/s: from when a record was due until a consumer of the
//	       second cluster has it
//	copy   so many as fast as possible, until the second cluster has all
//
// A line that is cut has the first alone, and is cut for a minute in the midst of it:
// the result tells how long after that no record came later than a second any more. A
// line that is shared has a third region, and tells what two links of one region get
// of it. Packets that pass cost CPU time of this program, which counts as the clients'.
//
// # What is measured
//
// Records that consumers get are counted per partition: lost, repeated and disordered
// ones are part of the result. CPU seconds are those of the servers' processes
// (/proc), per GB of payload; RSS is the most that all of them had together, looked
// at four times a second. The clients' CPU time stands beside it, since clients,
// servers and disk share the machine. Latency counts from when a record was due,
// so that a stall is not hidden. Kafka's client, which is Rhumb's too, gathers a batch
// for -linger, which is part of it; NATS's client gathers nothing.
//
// Results go to a file, a line of JSON each, to which later runs append. The
// table shows the median of the runs in it.
package main

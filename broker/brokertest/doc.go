// Package brokertest is a region in memory for tests of the broker and of the
// protocols on top of it: topics, partitions, idempotent producers, group
// offsets. It keeps nothing, has one replica, and does what a test tells it to:
// hold appends back, fail them, move the leader epoch.
package brokertest

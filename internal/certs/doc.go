// Package certs makes and checks the certificates of a mesh: one CA, a
// certificate per region, and certificates of clients of the HTTP API. All keys
// are ECDSA P-256, all connections TLS 1.3.
//
// A certificate names what it stands for in one URI:
//
//	rhumb://<mesh uuid>/region/<name>
//	rhumb://<mesh uuid>/client/<name>
//
// Host names and addresses in a region's certificate are for browsers and Kafka
// clients; links between regions do not look at them, because a region may move.
//
// # Rotation
//
// A [Source] looks at its files again before a handshake when they changed, so a
// new certificate is used without a restart. A CA file may hold several
// certificates: while a CA is rolled over both are trusted. A new file that
// cannot be read leaves the old content in force, and [Source.Err] says why.
//
// # Files
//
// A [Folder] is where an operator makes and keeps them. It writes the key before
// the certificate, each as a whole and flushed, under a lock of the directory.
//
// There are no goroutines in this package. Source.mu is its only lock in memory.
package certs

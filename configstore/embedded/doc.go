// Package embedded holds the configuration store that needs no server: a
// directory of JSON documents, safe for several processes of one host ([Open]),
// and its twin in memory for tests and simulations ([NewMemory]), which can be
// down, silent, or restored from an old copy.
//
// # The directory
//
//	LOCK                         flock: exclusive while one puts, shared while one lists
//	CHANGES                      a token that is new with each put
//	rhumb/v1/regions/us.json     one file per document
//	rhumb/v1/regions/.tmp-*      what a killed writer left; removed by the next put there
//
// A file is {"key": …, "sha256": …, "document": {…}}, where sha256 is over the
// key, a line feed and the canonical JSON of the document. Names longer than a file name may be are cut
// and end in a hash; the key inside the file is the truth.
//
// A put takes the lock and then, in this order: writes the new file beside the
// old one and flushes it, writes a new token to CHANGES, renames, flushes the
// directory. A get takes no lock: it sees the old file or the new one. A writer
// killed at any point leaves one of the two, and its lock is free:
//
//	killed before the rename     the old document, and a .tmp- file that nobody reads
//	killed after the rename      the new document
//
// Puts of one handle that wait at the same time go under one lock, each with all of its
// steps, and each is answered after its own.
//
// A watch lists the documents when it sees another token. The list waits for the
// lock, so for the end of the put that wrote the token, or of its writer: a change
// is seen also when its writer died right after the rename.
//
// # Goroutines
//
// None. A watch runs on the goroutine of its caller, and one of those that put works for
// the others that wait.
//
// # Lock order
//
// queue.turn, then the flock, then queue.mu or Store.mu for a moment. None is held while fn
// of a watch runs.
package embedded

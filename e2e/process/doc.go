// Package process runs the real binary for tests: `rhumb server` processes with
// a network of ours between them, and `rhumb dev`. It is what an operator does,
// through the same command line, files, ports and signals; its tests kill
// processes with SIGKILL and look at the result with foreign clients and with
// `rhumb verify`.
//
//	[Binary]   builds rhumb once per test run
//	[Launch]   starts a process, whose output a test can wait for
//	[Start]    starts a mesh of `rhumb server` processes, with relays between them
//	[StartDev] starts `rhumb dev`
//	[Traffic]  idempotent producers in all regions, and what they were told
//
// Nothing in here knows an internal state of a region: what is checked can be
// checked from outside.
//
// # Goroutines
//
// One per process, which waits for its end; one per relay; one per producer.
// Each ends before the test does.
package process

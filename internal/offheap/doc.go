// Package offheap keeps what the process has of the system's own memory inside the
// limit that the Go runtime holds itself to. The runtime counts only what it has
// allocated itself: without this, a process with a limit would take that and all
// buffers outside the heap on top.
package offheap

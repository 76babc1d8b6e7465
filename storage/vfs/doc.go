// Package vfs is the small file system interface that everything in storage
// goes through, with two implementations: [OS], the operating system's, and
// [Mem], a twin in memory that can crash, tear, reorder, fill up, lie about
// space and fail at any operation.
//
// # Durability
//
// The rules are POSIX's at their strictest, and the twin holds callers to them:
//
//   - What was written to a file is safe after [File.Sync] returned nil. Size
//     changes (writes at the end, Truncate, Allocate) count as written.
//   - A name (Create, OpenReadWrite of a new file, Rename, Remove, a new folder
//     of MkdirAll) is safe after [FS.SyncDir] of the folder that holds it. Sync
//     of the file does not make its name safe.
//   - After a failed Sync nothing is known about what was written since the last
//     successful one, and a later successful Sync does not make it safe: the
//     kernel may have dropped the dirty pages. Only writing it again does.
//
// # Paths
//
// Paths use the separator of the operating system. Errors wrap fs.ErrNotExist,
// fs.ErrExist, fs.ErrClosed and syscall errors (ENOSPC, EIO), in *fs.PathError.
//
// # Concurrency
//
// An FS may be used by several goroutines. A File allows concurrent ReadAt with
// everything; writes to separate ranges may run beside each other and beside Sync,
// which then may or may not include them. Close may run beside ReadAt, which then finishes or
// fails with fs.ErrClosed.
// The package has no goroutines of its own.
package vfs

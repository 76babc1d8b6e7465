// Package consul keeps the documents of a mesh in Consul's key-value store. It is
// the only package that imports Consul's API.
//
// A document of the key rhumb/v1/… lies under the same key behind [Config.Prefix],
// as its canonical JSON. A put reads the stored document, checks the version, and
// writes with compare-and-set on the ModifyIndex that it read. Reads ask the
// leader, who makes sure that it still is one (consistency mode "consistent"): a
// follower or a leader that lost its place would show older documents, which is
// what a store that went back looks like.
//
// # What Consul bounds
//
// A value has less than 512 KB: [configstore.MaxDocumentBytes] lies below. A
// transaction has at most 64 operations, and its request less than 512 KB too:
// what is put back after a loss goes in batches. A blocking query waits at most 10
// minutes: a watch asks for one minute at a time.
//
// # Access
//
// The address, the token and the TLS files come from [Config]; what it leaves open
// comes from the environment that Consul's own tools read (CONSUL_HTTP_ADDR and so
// on). Token and certificate files may be replaced while a handle is in use.
//
// Consul leaves what a token may not read out of a list, in silence. That would
// look as if documents were lost, so an answer that was filtered is an error here.
//
// # Services
//
// [Registration] makes a region's listeners services of the local agent, with
// health checks that the agent runs.
//
// # Goroutines
//
// None of its own: Watch and [Registration.Run] block in their callers'.
package consul

// Package kafka speaks the Kafka protocol: listeners, connections, and one file
// per API that decodes, calls package broker and encodes. It keeps no state but
// that of connections and fetch sessions.
//
// # APIs
//
// Each API has a file NN_name.go, NN being its key, that registers itself with
// the versions that it handles. ApiVersions answers from that registry, so what
// is advertised is what is built. Topic ids are offered by all APIs that can
// carry them, as clients take all or nothing.
//
// Not offered: transactions. A transactional id is answered with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client reports at once
// instead of trying again.
//
// # A request's way
//
// The reader of a connection takes one request after another. It checks length,
// API and version before it reserves bytes of the node's budget, and only then
// makes room for the request. A handler does in the reader what must keep its
// order (appends are handed to the region, positions are committed) and gives
// back a reply, a function that waits for what is left. Replies go through a
// queue to the connection's writer, which calls them in the order of the
// requests. So requests overlap, answers leave in order, and a fetch that waits
// holds up nobody but the answers behind it on its own connection.
//
// # Who is there
//
// auth.go has the states of a login. Until it is done nothing but ApiVersions and
// the login itself is read. Each request then has a caller, made from the user's
// document as it is at that moment, and reaches topics and groups through it.
//
// # Goroutines
//
//   - Server.accept, one per listener: ends when the listener is closed.
//   - conn.run, one per connection: reads requests, calls handlers; ends at the
//     end of the stream, on an error or when the server drains.
//   - conn.write, one per connection that has something to answer: ends when
//     there is nothing left, so that a connection which rests costs one stack.
//   - Server.followAccounts, if there are accounts: ends connections of users who
//     were deleted; ends when the server is closed.
//   - one per fetch that is being served: ends when the fetch is answered, at
//     once when the client leaves or the server drains.
//
// # Lock order
//
// Server.mu, conn.mu, outbox.mu, sessions.mu, limiter.mu and budget.mu are leaves: none is
// held while another is taken. A fetch has its session's turn while it waits.
package kafka

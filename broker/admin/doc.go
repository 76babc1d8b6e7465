// Package admin is a node's HTTP API for people and tools: /admin/v1 (JSON, as
// openapi.yaml says), /metrics, /healthz and /readyz. It is the only home of the
// metrics exporter. What it needs of the region, the broker and the links it
// declares as small interfaces (contracts.go) that the wiring fills.
//
// # Who may call
//
// Each call names the least [Role] of its caller: viewer, operator or admin. Whom a
// tenant names in admin_roles may make some of them without, for that tenant alone:
// the call's reach and the request's scope say which (scope.go). A
// caller is known by its token or by a client certificate, where either is
// configured; [Config.CheckExposure] refuses to listen beyond loopback without.
// /healthz and /readyz answer everybody, without details. The Host header
// must be an IP address, localhost or a configured name, and an Origin header
// must name the same host, so that no web page can drive the API from a browser.
// Changes, done or refused, have audit lines; wrong tokens are counted per address.
//
// # Digests
//
// GET …/digest streams one JSON line per stored batch of one origin life. It is
// what "rhumb verify" compares, so it trusts little: unless asked to seek it reads the
// log itself from its start in the log's order, not the index of origins, and
// computes every checksum from the bytes. It holds one read (1 MiB, or one
// batch of up to 4 MiB) at a time, and a codec's window: records are summed up while they
// go by in pieces.
//
// # What is large
//
// A batch of some kilobytes may have records of hundreds of megabytes. Calls look at a
// record's size before they take room for it. A batch, a block of snappy or a record to
// show of more than 4 MiB is in memory one at a time, of all calls; what waits for that
// holds nothing meanwhile, and is unavailable after 30 s.
//
// # Goroutines
//
//   - Run: the accept loop of net/http, ended by Shutdown when ctx is done
//   - one per connection, by net/http; the digest ones are limited to 8
package admin

// Package cli is the commands of the rhumb binary that ask a running mesh, or
// look into a data directory: verify, topic, link, gap, user, tenant, namespace,
// topology, produce, consume, log and version; certs, which makes certificates; and region,
// which works on the configuration store. The commands that run servers are
// elsewhere.
//
// # Which region
//
// Commands ask the admin API at RHUMB_ADDR (http://127.0.0.1:8080 by default).
// With --region NAME they ask that region instead, whose address the first one
// knows. RHUMB_TOKEN is sent as bearer token, RHUMB_CERT and RHUMB_KEY are a client
// certificate, RHUMB_CACERT names a file of certificates to check servers with.
//
// What a command prints comes as -o says; what it could not do is one line on
// standard error that ends with what to do next. "rhumb help environment" and
// "rhumb help exit-codes" are topics_help.go, docs/cli.md says the same.
package cli

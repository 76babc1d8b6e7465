// Package cli is the commands of the rhumb binary that ask a running mesh, or
// look into a data directory: verify, topic, link, gap, user, tenant, namespace,
// produce, consume, log and version; certs, which makes certificates; and region,
// which works on the configuration store. The commands that run servers are
// elsewhere.
//
// # Which region
//
// Commands ask the admin API at RHUMB_ADDR (http://127.0.0.1:8080 by default).
// With --region NAME they ask that region instead, whose address the first one
// knows. RHUMB_TOKEN is sent as bearer token, RHUMB_CACERT names a file of
// certificates to check servers with.
//
// # Exit codes
//
//	0  done; verify: equal; log verify: undamaged
//	1  refused or failed; verify: the regions differ; log verify: damage was found;
//	   certs show: a certificate cannot be used
//	2  cannot tell: wrong usage, a region cannot be reached or gave no answer in
//	   time; verify: something could not be compared
package cli

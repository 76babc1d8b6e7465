// Package api holds the JSON documents of the admin API, /admin/v1: what the
// server (package admin) writes and clients (package client, the command line)
// read. openapi.yaml beside the server describes the same documents, and a test
// of the server holds the two together.
//
// Integers of 64 bits are strings in JSON, since a JSON number loses digits
// above 2^53 in many readers. Offsets, deletion counts, bytes and records are of
// this kind; -1 stands for "no offset". Hashes are strings of hexadecimal digits.
// Times are milliseconds since 1970, as strings. Lags and round trips are
// seconds as numbers.
package api

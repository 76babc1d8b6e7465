// Package configstoretest is the contract of a configuration store as tests:
// every backend runs [Run], and so do the Writer and the View on top of it.
package configstoretest

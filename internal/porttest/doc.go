// Package porttest hands out ports to tests that run whole regions, so that
// test binaries that run side by side never meet on one.
//
// A test that binds port 0, lets go and binds again what it got (as it must
// after a kill -9 of a region) loses the port now and then to an outgoing
// connection, which takes it from the same range. So these ports lie below that
// range, and belong to a test for as long as it holds a lock file. They keep the
// pattern of `rhumb dev`: the default ports, all moved by one offset.
package porttest

// Package consultest runs real Consul agents for tests: [Binary] builds the one
// version that tools/consul/go.mod pins, once per machine, and [Start] runs a server
// of it on free ports, with its own data, which a test can kill, start again and
// restore. [Proxy] stands before an agent and makes its watches silent.
//
// # Goroutines
//
// One per agent, which waits for its end. It ends before the test does.
package consultest

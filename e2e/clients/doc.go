// Package clients tries foreign clients on a real mesh: kcat (librdkafka), and
// franz-go where a client has to try again for long. What a client wrote in one
// region is read with another in the others.
//
// Programs that a person may not have are skipped with the reason; where CI=true
// says that nobody can install them later, their absence fails.
package clients

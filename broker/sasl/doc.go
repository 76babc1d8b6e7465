// Package sasl holds the server's side of the SASL exchanges that Kafka clients
// use, as state machines that take a token of the client and give one back:
//
//	PLAIN (RFC 4616)                    SCRAM-SHA-256, SCRAM-SHA-512 (RFC 5802, 7677)
//
//	start ─ authzid NUL user NUL ─▶     start ─ client-first ─▶ challenged
//	        password          done                                  │ client-final, proof right
//	                                                                ▼
//	                                                              done
//
// Any other token, and any token after the end, ends the exchange with an error:
// nothing but a right proof or password leads to done.
//
// What a stranger learns is the same for users who exist and who do not: both are
// challenged with a salt, both cost the same work, and both fail at the same step
// with the same words (see [scram.Decoy]). That holds for users whose verifiers were
// made by Rhumb: the salt of one that a Kafka tool made may have another length.
//
// Channel binding is not offered. Extensions that a client adds (tokenauth=true,
// say) are read and mean nothing.
//
// Passwords are checked against SCRAM verifiers for PLAIN too, so no form of a
// password is kept from which it could be read.
//
// The package is pure: no clock, no socket, no goroutine.
package sasl

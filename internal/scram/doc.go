// Package scram holds what a server keeps of a password, and the sums over it, as
// RFC 5802 (SCRAM) and RFC 7677 (SCRAM-SHA-256) have them:
//
//	SaltedPassword  = PBKDF2(password, salt, iterations)
//	ClientKey       = HMAC(SaltedPassword, "Client Key")
//	StoredKey       = H(ClientKey)
//	ServerKey       = HMAC(SaltedPassword, "Server Key")
//	ClientSignature = HMAC(StoredKey, AuthMessage)
//	ClientProof     = ClientKey XOR ClientSignature
//	ServerSignature = HMAC(ServerKey, AuthMessage)
//
// Only salt, iterations, StoredKey and ServerKey are kept, a [Verifier]. Who
// steals it can pretend to be the server, and must guess the password to be the
// client. A password is taken as the bytes that came (UTF-8), as Kafka does,
// without the normalization of RFC 4013.
//
// The package is pure: no clock, no lock, no goroutine.
package scram

// Package nearest finds, among names that there are, those that somebody may have meant
// who typed one that there is not. Errors about unknown names end with them, so that a
// person sees the slip without another command.
package nearest

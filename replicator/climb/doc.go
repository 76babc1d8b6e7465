// Package climb decides over how many connections a link sends. It is pure: it is told
// once or twice a second how the path did, and answers with a number. It has no clock.
//
// One connection of QUIC loses half of its speed with each loss that it sees, so that on
// a long path with random loss it stays far below what the path carries; several lose
// theirs one at a time. On a path whose own queue is full, though, more connections only
// take from others. So it climbs hills: while there is more to send than the path takes,
// it tries more connections, measures, and keeps them if they brought clearly more. What
// brought nothing is given back, and tried again after a pause that doubles. Once in a
// while it tries fewer, too, since paths heal. A round trip that has grown far above its
// least says that a queue is full: then it never climbs, and steps down.
//
// Where links share a full path, each gets its part by what its connections lose and
// regain: at a loss one takes three tenths of its window away, and then has a packet more
// for each round trip. With much in flight that takes half a minute, and links that began
// with unlike parts need several of those to become like. So a far path on which much is in
// flight has several connections, always as many, from the first moment at which it
// limits what is sent: they regain in a fraction of that time, and two links neither climb nor step
// down one before the other.
//
// It keeps one connection while there is nothing to send, and on a path so short and
// clean that one is all it needs.
package climb

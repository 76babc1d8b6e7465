// Package blocks keeps blocks of log files that were read past the system's page cache:
// a few, shared by all who read near the same places. A log that is written past the page
// cache would have to be read into fresh pages of it, which on a virtual machine cost more
// than all else that is done to the bytes; memory that was used before costs nothing.
//
// # What may be in it
//
// Only bytes that never change while the file has its id: the source says how far. Ids
// are not used again while the process runs, and a file that is gone is forgotten. So no
// block is ever out of date, and none is written to. What cannot be had from here (no
// memory, no such file, a bad place on the disk) is read in the usual way, which has the
// last word about errors.
//
// # Memory
//
// A budget of blocks, whose memory is taken when it is first needed and then used again. It
// is in large pages and not the collector's. Blocks in use
// stay; of the others the one that was used longest ago goes. When too many are in use,
// because clients take their answers slowly, nothing is given.
//
// # Reading ahead
//
// Readers tell what they are about to read, which is read at once, in large pieces beside
// each other, and with it what follows, if they go through the file. How far ahead
// is for all: it halves when blocks go unused, and grows while they are used.
//
// A block that was read from disk for the second time is not read a third time: data that
// several readers want at different times is what the page cache is for.
//
// # Goroutines
//
// One for each piece that is read ahead, at most maxLoads; Close waits for them. mu is held
// for no read.
package blocks

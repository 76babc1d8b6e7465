// Package sim runs whole meshes of regions in virtual time: the real server on
// a file system that can lose power, joined by a network that delays, loses,
// doubles, reorders and cuts, under a schedule of faults that a seed lays out.
// After the faults everything is healed, the mesh gets time to settle, and the
// invariants are checked from the logs of all regions.
//
// Ten virtual minutes cost about a second. A failing seed leaves its event log
// and says how to run it again; the seed replays the same schedule of faults
// (not the same interleaving of goroutines, which the scheduler decides).
package sim

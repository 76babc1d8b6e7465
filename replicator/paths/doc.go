// Package paths decides over which of several paths a region takes an origin life
// of a partition: straight from the origin, or from a region that forwards it. It
// is pure: a [Choice] has no clock, lock, goroutine or socket; time is an argument.
//
// # Who decides, and when
//
// The destination decides. Every region that could bring a life asks for a session
// (an offer) when it has something to tell, and again from time to time while it is
// refused and knows of something that the destination lacks. So a choice changes
// only when something is offered: nothing is polled, and an idle life costs nothing.
//
// # Which
//
//	the path in use is down, or has nothing of what is next   any other that offers
//	an offer is less far from the origin, and caught up       it, at once
//	an offer has what is missing here, and the watermark has
//	not moved for Stall since that was first seen             it; the other one rests
//	else                                                      the one in use
//
// A path that rested returns when the rest is over, which doubles each time until
// it has brought something. What two paths bring at once the accept rule drops.
//
// # Gaps
//
// A path that says that it has nothing up to some offset (its floor) is believed,
// but the gap is final only when nobody else may still bring it:
//
//	a path whose floor lies above the watermark, too          does not count
//	the origin itself, if an edge leads from it and it is
//	not declared gone                                         is waited for, for ever
//	a path that has more than this region                     is waited for, for ever: it is next
//	a path that is down, or up and not further than this
//	region, but might get more without it                     is waited for up to Grace
//	a path that can get the life from this region only        is waited for until it was up for Settle
//
// Then the gap with the lowest end is taken, which lies on a batch border: what one
// path lacks another may still have behind that.
package paths

package mutant

import (
	"maps"
	"slices"
)

// Name names one planted bug. The part before the slash is the package whose
// tests must find it.
type Name string

// Bugs of the accept rule.
const (
	FirstBorder      Name = "dedup/first-border"
	LastBorder       Name = "dedup/last-border"
	PrevBorder       Name = "dedup/prev-border"
	OverlapAccepted  Name = "dedup/overlap-accepted"
	ChainUnchecked   Name = "dedup/chain-unchecked"
	DuplicateTrusted Name = "dedup/duplicate-trusted"
	SkipBorder       Name = "dedup/skip-border"
	SkipPastMissing  Name = "dedup/skip-past-missing"
	SkipMovesFloor   Name = "dedup/skip-moves-floor"
	GapKeepsFloor    Name = "dedup/gap-keeps-floor"
	SkipKeepsChain   Name = "dedup/skip-keeps-chain"
	RecentMisordered Name = "dedup/recent-misordered"
)

// Bugs of the producer tables.
const (
	SequenceWrap     Name = "dedup/sequence-wrap"
	SequenceBorder   Name = "dedup/sequence-border"
	EpochAfterCopies Name = "dedup/epoch-after-duplicates"
	EpochAnyFirst    Name = "dedup/epoch-any-first"
	FourBatches      Name = "dedup/four-batches"
	NoStateZero      Name = "dedup/no-state-needs-zero"
	ExpiryBorder     Name = "dedup/expiry-border"
)

// Bugs of the two ends of a session.
const (
	UnflushedLeaves  Name = "session/unflushed-leaves"
	FloorIgnored     Name = "session/floor-ignored"
	GapAsSkip        Name = "session/gap-as-skip"
	NoGoBack         Name = "session/no-go-back"
	StaleRead        Name = "session/stale-read"
	WindowLeak       Name = "session/window-leak"
	WindowIgnored    Name = "session/window-ignored"
	RefusalConfirms  Name = "session/refusal-confirms"
	RefusedEarly     Name = "session/refused-early"
	ChainNotCompared Name = "session/chain-not-compared"
	PastEndIgnored   Name = "session/past-end-ignored"
	SkipTooFar       Name = "session/skip-too-far"
)

// Bugs of the choice between paths.
const (
	FloorTaken     Name = "paths/floor-taken"
	ReturnsBehind  Name = "paths/returns-behind"
	StallIgnored   Name = "paths/stall-ignored"
	HighestGap     Name = "paths/highest-gap"
	GapAtOnce      Name = "paths/gap-at-once"
	OriginNotAsked Name = "paths/origin-not-asked"
)

// Bugs that a region could have; the session tests' own region has them.
const (
	WatermarkApart      Name = "session/region-watermark-apart"
	UnappliedDuplicate  Name = "session/region-unapplied-duplicate"
	LivesShareWatermark Name = "session/region-lives-share-watermark"
	NotDecidedAtApply   Name = "session/region-not-decided-at-apply"
)

// Bugs of consumer groups.
const (
	StaleGeneration  Name = "groups/stale-generation"
	SyncBeforeStored Name = "groups/sync-before-stored"
	InstanceUnfenced Name = "groups/instance-unfenced"
	PlaceNotStored   Name = "groups/place-not-stored"
	DropUnanswered   Name = "groups/drop-unanswered"
	OldUnanswered    Name = "groups/old-process-unanswered"
	EverybodyLeads   Name = "groups/everybody-leads"
	TimerForgotten   Name = "groups/timer-forgotten"
	StaleWrite       Name = "groups/stale-write"
	MemoryLeak       Name = "groups/memory-leak"
	GenerationKept   Name = "groups/generation-kept"
	LeftStays        Name = "groups/left-stays"
)

// What is wrong with each.
var what = map[Name]string{
	FirstBorder:      "a batch whose first offset is the watermark is accepted",
	LastBorder:       "a batch that ends at the watermark is no duplicate",
	PrevBorder:       "a batch is accepted though its prev is one past the watermark",
	OverlapAccepted:  "a batch that starts below the watermark and ends above it is accepted",
	ChainUnchecked:   "the chain of a batch is not compared",
	DuplicateTrusted: "a duplicate that ends at a known point is not compared with it",
	SkipBorder:       "a skip that ends at the watermark is accepted again",
	SkipPastMissing:  "a skip is accepted though it starts past the watermark",
	SkipMovesFloor:   "a skip over nothing raises the floor",
	GapKeepsFloor:    "a gap does not raise the floor",
	SkipKeepsChain:   "a skip does not take over the chain at its end",
	RecentMisordered: "older points are lost as soon as there is a newer one",

	SequenceWrap:     "after 2^31-1 comes -2^31",
	SequenceBorder:   "a sequence that leaves one out is accepted",
	EpochAfterCopies: "duplicates are looked for before the epoch is compared",
	EpochAnyFirst:    "a new epoch may start at any sequence",
	FourBatches:      "only four batches are remembered",
	NoStateZero:      "a producer without state must start at zero",
	ExpiryBorder:     "a producer expires one millisecond early",

	UnflushedLeaves:  "the source sends what it has not flushed",
	FloorIgnored:     "the source goes on from its floor without a gap",
	GapAsSkip:        "the source calls a gap a skip over other origins",
	NoGoBack:         "after a refusal the source goes on where it was",
	StaleRead:        "the source uses the result of a read that it gave up",
	WindowLeak:       "a cumulative confirmation frees all permits but one",
	WindowIgnored:    "the source sends whatever it has read",
	RefusalConfirms:  "a refusal confirms what was sent",
	RefusedEarly:     "the destination refuses while messages are with the region",
	ChainNotCompared: "the source does not compare its chain with the destination's",
	PastEndIgnored:   "the source does not see that the destination has more than it",
	SkipTooFar:       "the skip at the end covers what is not flushed yet",

	FloorTaken:     "a path is taken although it has nothing of what is next",
	ReturnsBehind:  "a shorter path is taken before it has caught up",
	StallIgnored:   "a path that brings nothing stays in use",
	HighestGap:     "of several gaps any is taken, not that with the lowest end",
	GapAtOnce:      "a gap is final as soon as one path says so",
	OriginNotAsked: "a gap is final although the origin was not asked",

	WatermarkApart:      "data and watermark are applied one after the other",
	UnappliedDuplicate:  "a duplicate is confirmed from state that is not applied",
	LivesShareWatermark: "a new life goes on from the watermark of the life before it",
	NotDecidedAtApply:   "what was accepted when it was proposed is applied unseen",

	StaleGeneration:  "a member's generation is not compared with the group's",
	SyncBeforeStored: "members are told their assignment before it is stored",
	InstanceUnfenced: "the member id of a static member is not looked at",
	PlaceNotStored:   "a static member's new process is answered before its place is stored",
	DropUnanswered:   "a member that is removed while it joins is not answered",
	OldUnanswered:    "the old process of a static member is not answered when it is fenced",
	EverybodyLeads:   "each member is told that it leads",
	TimerForgotten:   "the timer is not set again while it is set",
	StaleWrite:       "a write that ends completes whatever rebalance is under way",
	MemoryLeak:       "the bytes of a member that goes are not given back",
	GenerationKept:   "a rebalance with the same leader keeps the generation",
	LeftStays:        "a static member that leaves stays",
}

// What says what is wrong when the bug is on, "" for an unknown name.
func What(n Name) string { return what[n] }

// All gives the names of all bugs of a package ("dedup", "session"), sorted.
func All(pkg string) []Name {
	names := slices.Sorted(maps.Keys(what))
	return slices.DeleteFunc(names, func(n Name) bool {
		return len(n) <= len(pkg) || string(n[:len(pkg)+1]) != pkg+"/"
	})
}

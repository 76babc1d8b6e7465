package configstore

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// RegionState says whether a region takes part in the mesh.
type RegionState string

// The states of a region. One that was removed is a tombstone; see [Former].
const (
	// RegionActive takes part.
	RegionActive RegionState = "active"
	// RegionDraining takes no producers any more, and sends what it has published.
	RegionDraining RegionState = "draining"
	// RegionDrained is a draining region all of whose records are confirmed by every
	// region to which an edge of the policy led.
	RegionDrained RegionState = "drained"
)

// Protocols of a region's client addresses.
const (
	ProtocolKafka  = "kafka"
	ProtocolNative = "native"
	ProtocolAdmin  = "admin"
)

// Region is the document of one region.
type Region struct {
	Meta
	// Name is the region's name; it is in the key.
	Name rhumb.RegionName `json:"-"`
	// Number identifies the region for ever. A name that comes back after its
	// deletion has a new number.
	Number rhumb.RegionNumber `json:"number"`
	// DataUUID is that of the region's data directory. Zero until its first
	// start, and again after ReplaceRegion.
	DataUUID rhumb.UUID `json:"data_uuid,omitzero"`
	// Rebuilds counts how often the data directory was replaced under this
	// number, so that what is given out in blocks per region never repeats.
	Rebuilds uint32 `json:"rebuilds,omitzero"`
	// Addresses for clients, host:port, by protocol (kafka, native, admin).
	Addresses map[string][]string `json:"addresses,omitzero"`
	// Geo lists host:port (UDP) for other regions; hosts are resolved at each dial.
	Geo []string `json:"geo,omitzero"`
	// CAFingerprint is the SHA-256 of the region's CA certificate in lower case
	// hexadecimal; empty if not told.
	CAFingerprint string `json:"ca_fingerprint,omitzero"`
	// TrustedCAs are the SHA-256 of the CA certificates that the region's links
	// trust, as CAFingerprint is written; empty if not told. While a mesh's CA is
	// rolled over there are two.
	TrustedCAs []string `json:"trusted_cas,omitzero"`
	// State of the region. Empty: RegionActive.
	State RegionState `json:"state,omitzero"`
	// StateAt is when State was entered; zero for a region that was always active.
	StateAt time.Time `json:"state_at,omitzero"`
	// JoinedAt is when a process first started as this region under its number.
	JoinedAt time.Time `json:"joined_at,omitzero"`
	// Pinned addresses are an operator's: the region leaves them as they are.
	Pinned bool `json:"pinned,omitzero"`
	// Forced says of a removed region (Deleted) that it had not been drained.
	Forced bool `json:"forced,omitzero"`
	// Former are the numbers that regions of this name had before, oldest first.
	Former []Former `json:"former,omitzero"`
}

func (r *Region) validate(old *Region) error {
	if err := r.Number.Validate(); err != nil {
		return invalid("number", "%v", err)
	}
	if old != nil && !old.Deleted && r.Number != old.Number {
		return invalid("number", "never changes: it is %d, not %d", old.Number, r.Number)
	}
	switch r.State {
	case "", RegionActive, RegionDraining, RegionDrained:
	default:
		return unbuilt("state", "must be active, draining or drained, not "+strconv.Quote(string(r.State)))
	}
	if err := r.validateCAs(); err != nil {
		return err
	}
	if err := r.validateFormer(); err != nil {
		return err
	}
	for protocol, addrs := range r.Addresses {
		if !slices.Contains([]string{ProtocolKafka, ProtocolNative, ProtocolAdmin}, protocol) {
			return invalid("addresses."+protocol, "no such protocol: use kafka, native or admin")
		}
		if err := validateAddresses("addresses."+protocol, addrs); err != nil {
			return err
		}
	}
	return validateAddresses("geo", r.Geo)
}

// maxAddresses bounds a list of addresses: a region has few nodes.
const maxAddresses = 64

func validateAddresses(field string, addrs []string) error {
	if len(addrs) > maxAddresses {
		return invalid(field, "has %d addresses, at most %d are allowed", len(addrs), maxAddresses)
	}
	for i, a := range addrs {
		host, port, err := net.SplitHostPort(a)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil || host == "" || n == 0 || len(host) > 253 {
			return invalid(field+"["+strconv.Itoa(i)+"]", "%q must be host:port", a)
		}
	}
	return nil
}

// maxTrusted bounds TrustedCAs: a roll-over has two.
const maxTrusted = 16

func (r *Region) validateCAs() error {
	if len(r.TrustedCAs) > maxTrusted {
		return invalid("trusted_cas", "has %d entries, at most %d are allowed", len(r.TrustedCAs), maxTrusted)
	}
	if r.CAFingerprint != "" && !isFingerprint(r.CAFingerprint) {
		return invalid("ca_fingerprint", "must be 64 hexadecimal digits")
	}
	for i, ca := range r.TrustedCAs {
		if !isFingerprint(ca) {
			return invalid("trusted_cas["+strconv.Itoa(i)+"]", "must be 64 hexadecimal digits")
		}
	}
	return nil
}

func isFingerprint(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) == sha256.Size
}

// SameAddresses reports whether two documents tell peers and clients the same.
func (r *Region) SameAddresses(o *Region) bool {
	if len(r.Addresses) != len(o.Addresses) || !slices.Equal(r.Geo, o.Geo) {
		return false
	}
	for p, a := range r.Addresses {
		if !slices.Equal(a, o.Addresses[p]) {
			return false
		}
	}
	return true
}

package configstore

import (
	"encoding/hex"
	"net"
	"slices"
	"strconv"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// RegionState says whether a region takes part in the mesh.
type RegionState string

// RegionActive is the state of a region that takes part. It is the only one of
// this version.
const RegionActive RegionState = "active"

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
	// State is RegionActive.
	State RegionState `json:"state,omitzero"`
}

func (r *Region) validate(old *Region) error {
	if err := r.Number.Validate(); err != nil {
		return invalid("number", "%v", err)
	}
	if old != nil && !old.Deleted && r.Number != old.Number {
		return invalid("number", "never changes: it is %d, not %d", old.Number, r.Number)
	}
	if r.State != RegionActive && r.State != "" {
		return unbuilt("state", "only active is supported by this version, not "+strconv.Quote(string(r.State)))
	}
	if r.CAFingerprint != "" {
		if raw, err := hex.DecodeString(r.CAFingerprint); err != nil || len(raw) != 32 {
			return invalid("ca_fingerprint", "must be 64 hexadecimal digits")
		}
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

// SameAddresses reports whether two documents tell peers and clients the same.
func (r *Region) SameAddresses(o *Region) bool {
	if len(r.Addresses) != len(o.Addresses) || r.CAFingerprint != o.CAFingerprint || !slices.Equal(r.Geo, o.Geo) {
		return false
	}
	for p, a := range r.Addresses {
		if !slices.Equal(a, o.Addresses[p]) {
			return false
		}
	}
	return true
}

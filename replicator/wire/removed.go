package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Removed is what a region says to one that its documents know to be removed from the
// mesh: the reason with which it closes the connection, with [CloseRemoved]. A close is
// all that surely arrives of a connection that is refused, so the evidence stands in its
// text: fields in this order, a semicolon, and then words for people.
//
//	removed region=eu number=3 version=7 at=1700000000123; region eu, number 3, was …
type Removed struct {
	Name    rhumb.RegionName
	Number  rhumb.RegionNumber
	Version uint64 // of the document that says so
	At      int64  // when, ms since 1970
	Text    string // for people
}

// CloseRemoved is the code with which a connection is closed whose peer was removed from
// the mesh, if the peer's hello says that it knows the code.
const CloseRemoved uint64 = 8

// Reason gives the text of the close.
func (r *Removed) Reason() string {
	return fmt.Sprintf("removed region=%s number=%d version=%d at=%d; %s", r.Name, r.Number, r.Version, r.At, r.Text)
}

// When gives At as a time.
func (r *Removed) When() time.Time { return time.UnixMilli(r.At) }

// maxReason bounds the text of a close: QUIC has it in one packet.
const maxReason = 2048

// ParseRemoved reads the reason of a close with [CloseRemoved]. What a later version adds
// to the fields is left out.
func ParseRemoved(reason string) (Removed, error) {
	wrong := func(what string) (Removed, error) {
		return Removed{}, rhumb.Errorf(rhumb.KindCorrupt, "wire: the reason of a removal %s", what)
	}
	if len(reason) > maxReason {
		return wrong("is too long")
	}
	head, text, ok := strings.Cut(reason, "; ")
	fields := strings.Split(head, " ")
	if !ok || len(fields) < 5 || fields[0] != "removed" {
		return wrong("has no evidence")
	}
	var values [4]string
	for i, key := range []string{"region", "number", "version", "at"} {
		value, ok := strings.CutPrefix(fields[i+1], key+"=")
		if !ok {
			return wrong("does not say " + key)
		}
		values[i] = value
	}
	r := Removed{Name: rhumb.RegionName(values[0]), Text: text}
	number, err := strconv.ParseUint(values[1], 10, 16)
	if err != nil {
		return wrong("names no number")
	}
	r.Number = rhumb.RegionNumber(number)
	if r.Name.Validate() != nil || r.Number.Validate() != nil {
		return wrong("names no region")
	}
	if r.Version, err = strconv.ParseUint(values[2], 10, 64); err != nil || r.Version == 0 {
		return wrong("names no version")
	}
	if r.At, err = strconv.ParseInt(values[3], 10, 64); err != nil {
		return wrong("names no time")
	}
	return r, nil
}

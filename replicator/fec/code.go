package fec

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a group. They bound what a receiver keeps of one.
const (
	// MaxData is how many data packets a group may have.
	MaxData = 64
	// MaxParity is how many parity packets a group may have.
	MaxParity = 32
)

// Code is a strength: so many parity packets after so many data packets. The zero
// Code is no correction at all.
type Code struct {
	Data   int // packets of a group, 1 to [MaxData]
	Parity int // packets that follow them, 1 to [MaxParity]
}

// Off reports whether nothing is added.
func (c Code) Off() bool { return c.Parity == 0 }

// Overhead is how many bytes are added for each byte that is sent.
func (c Code) Overhead() float64 {
	if c.Off() {
		return 0
	}
	return float64(c.Parity) / float64(c.Data)
}

// String writes a code as it is configured: "20+4", or "off".
func (c Code) String() string {
	if c.Off() {
		return "off"
	}
	return fmt.Sprintf("%d+%d", c.Data, c.Parity)
}

// Mode says who decides over the strength: the measured loss, or a person. The zero
// Mode is auto.
type Mode struct {
	pinned bool
	code   Code
}

// Pinned makes the mode of a fixed strength; of the zero Code it is "off".
func Pinned(c Code) Mode { return Mode{pinned: true, code: c} }

// Auto reports whether the strength follows the measured loss.
func (m Mode) Auto() bool { return !m.pinned }

// Off reports whether nothing is ever added.
func (m Mode) Off() bool { return m.pinned && m.code.Off() }

// String writes a mode as it is configured.
func (m Mode) String() string {
	if m.Auto() {
		return "auto"
	}
	return m.code.String()
}

// ParseMode reads a mode: "auto" (also the empty string), "off", or a strength such
// as "20+4".
func ParseMode(s string) (Mode, error) {
	switch s {
	case "", "auto":
		return Mode{}, nil
	case "off":
		return Pinned(Code{}), nil
	}
	data, parity, ok := strings.Cut(s, "+")
	d, derr := strconv.Atoi(data)
	p, perr := strconv.Atoi(parity)
	if !ok || derr != nil || perr != nil || d < 1 || d > MaxData || p < 1 || p > MaxParity {
		return Mode{}, fmt.Errorf("%q is neither auto, off, nor DATA+PARITY such as 20+4 (up to %d+%d)", s, MaxData, MaxParity)
	}
	return Pinned(Code{Data: d, Parity: p}), nil
}

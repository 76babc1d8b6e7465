package topicconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Type says how a setting's value reads.
type Type uint8

// Types of settings.
const (
	String Type = iota
	Bool
	Int
	Long
	Double
	List
)

var typeNames = [...]string{"STRING", "BOOLEAN", "INT", "LONG", "DOUBLE", "LIST"}

// String gives Kafka's word for the type.
func (t Type) String() string { return typeNames[t] }

// Def is what is known of one setting.
type Def struct {
	Name    string
	Type    Type
	Default string
	// Node is the name under which nodes say it for topics that do not; "" if they
	// cannot.
	Node string
	// Unset means that a node says nothing of it unless it was told: there is no
	// default to be shown as the node's.
	Unset bool
	// Effect says that the value changes what this version does. The others are
	// kept and shown: tools set many that mean nothing here.
	Effect bool
	// Hidden settings are shown only where they are set.
	Hidden bool
	// Dynamic settings of nodes can be changed at run time.
	Dynamic bool
	Doc     string

	low, high int64 // bounds of numbers; high 0 means the type's
	words     []string
	check     func(value string) string // says what else is wrong, "" if nothing
}

// invalid is the answer to a value that a setting cannot have. Its words are
// those that Kafka's tools show, since people search for them.
func (d *Def) invalid(value, reason string) error {
	return rhumb.Errorf(rhumb.KindInvalid, "Invalid value %s for configuration %s: %s", value, d.Name, reason)
}

// MaxValue bounds the value of a setting, in bytes: every topic may have all of
// them, and they are kept in memory.
const MaxValue = 4096

// Check says what is wrong with a value, by type and bounds.
func (d *Def) Check(value string) error {
	if len(value) > MaxValue {
		return d.invalid(value[:40]+"...", fmt.Sprintf("Value must be no longer than %d bytes", MaxValue))
	}
	reason := ""
	switch d.Type {
	case Bool:
		if _, ok := parseBool(value); !ok {
			reason = "Expected value to be either true or false"
		}
	case Int, Long:
		reason = d.checkNumber(value)
	case Double:
		reason = d.checkDouble(value)
	case List:
		for _, word := range Words(value) {
			if reason == "" {
				reason = d.checkWord(word)
			}
		}
	default:
		reason = d.checkWord(strings.TrimSpace(value))
	}
	if reason == "" && d.check != nil {
		reason = d.check(value)
	}
	if reason != "" {
		return d.invalid(value, reason)
	}
	return nil
}

func (d *Def) checkNumber(value string) string {
	bits := 64
	if d.Type == Int {
		bits = 32
	}
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, bits)
	switch {
	case err != nil:
		return "Not a number of type " + d.Type.String()
	case n < d.low:
		return "Value must be at least " + strconv.FormatInt(d.low, 10)
	case d.high > 0 && n > d.high:
		return "Value must be no more than " + strconv.FormatInt(d.high, 10)
	}
	return ""
}

func (d *Def) checkDouble(value string) string {
	v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	switch {
	case err != nil || v != v:
		return "Not a number of type " + d.Type.String()
	case v < float64(d.low):
		return "Value must be at least " + strconv.FormatInt(d.low, 10)
	case d.high > 0 && v > float64(d.high):
		return "Value must be no more than " + strconv.FormatInt(d.high, 10)
	}
	return ""
}

func (d *Def) checkWord(word string) string {
	if len(d.words) > 0 && !slices.Contains(d.words, word) {
		return "String must be one of: " + strings.Join(d.words, ", ")
	}
	return ""
}

// Words splits the value of a list. An empty value is an empty list.
func Words(value string) []string {
	var out []string
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

func parseBool(value string) (v, ok bool) {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// Number reads a value that Check accepted; one that is no number, which only an
// older version can have stored, gives otherwise.
func Number(value string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
		return n
	}
	return otherwise
}

package kafka

import (
	"fmt"
	"regexp"
	"strings"
)

// kafkaNames is what a topic's name may be in Kafka.
var kafkaNames = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// maxName is the longest name of a topic in Kafka.
const maxName = 249

// nameFault says what is wrong with a topic's name in the words that Kafka's
// tools show, where it is Kafka's rule that it breaks.
func nameFault(name string, err error) string {
	const start = "Topic name is invalid: "
	switch {
	case name == "":
		return start + "the empty string is not allowed"
	case name == "." || name == "..":
		return fmt.Sprintf("%s'%s' is not allowed", start, name)
	case len(name) > maxName:
		return fmt.Sprintf("%sthe length of '%.300s' is longer than the max allowed length %d", start, name, maxName)
	case !kafkaNames.MatchString(name) && !strings.ContainsAny(name, ":/"):
		return fmt.Sprintf("%s'%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", start, name)
	}
	return start + err.Error()
}

// ptr gives a pointer to a copy, which optional strings of the codec want.
func ptr[T any](v T) *T { return &v }

// orEmpty reads an optional string, orNull writes one.
func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

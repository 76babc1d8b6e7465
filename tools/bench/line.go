package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// line is what is between two regions, the same both ways.
type line struct {
	name   string
	rtt    time.Duration
	loss   float64 // probability that a packet is lost, each way
	bits   float64 // bits per second that go through, each way; 0: all
	bursts bool    // all is lost for burstTime in each burstEvery
	cut    bool    // cut for cutTime while records come
	shared bool    // two lines of one region share the rate
}

const (
	burstTime  = 50 * time.Millisecond
	burstEvery = 2 * time.Second
	cutTime    = time.Minute
)

// defaultLines are those that are measured unless others are named.
const defaultLines = "200ms/1%,300ms/3%,80ms/0.1%,20ms/0.01%,80ms/100mbit,80ms/bursts,80ms/cut,80ms/100mbit/shared"

// parseLine reads a line: its round trip, and what else there is to say, with slashes
// between.
func parseLine(text string) (line, error) {
	rtt, rest, _ := strings.Cut(text, "/")
	l := line{name: text}
	var err error
	if l.rtt, err = time.ParseDuration(rtt); err != nil || l.rtt < 0 || l.rtt > time.Minute {
		return l, fmt.Errorf("line %q: it begins with a round trip, such as 200ms", text)
	}
	for word := range strings.SplitSeq(rest, "/") {
		percent, isLoss := strings.CutSuffix(word, "%")
		mbit, isRate := strings.CutSuffix(word, "mbit")
		switch {
		case word == "":
		case word == "bursts":
			l.bursts = true
		case word == "cut":
			l.cut = true
		case word == "shared":
			l.shared = true
		case isLoss:
			l.loss, err = strconv.ParseFloat(percent, 64)
			l.loss /= 100
		case isRate:
			l.bits, err = strconv.ParseFloat(mbit, 64)
			l.bits *= 1e6
		default:
			err = fmt.Errorf("unknown %q", word)
		}
		if err != nil {
			return l, fmt.Errorf("line %q: %w; there are N%%, Nmbit, bursts, cut, shared", text, err)
		}
	}
	if !(l.loss >= 0 && l.loss <= 1) || !(l.bits >= 0 && l.bits <= 1e12) || l.shared && l.bits == 0 {
		return l, fmt.Errorf("line %q: a loss is within 0 and 100%%, a rate above 0; what is shared is a rate", text)
	}
	return l, nil
}

// parseLines reads a list of lines.
func parseLines(list string) (lines []line, err error) {
	for text := range strings.SplitSeq(list, ",") {
		l, err := parseLine(text)
		if err != nil {
			return nil, err
		}
		lines = append(lines, l)
	}
	return lines, nil
}

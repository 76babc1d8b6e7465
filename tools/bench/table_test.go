package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// resultsFile writes results as runs do.
func resultsFile(t *testing.T, results []result) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "results.jsonl")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, r := range results {
		if err := json.NewEncoder(f).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

func TestTableShowsMediansAndFaults(t *testing.T) {
	file := resultsFile(t, []result{
		{System: "rhumb", Phase: "produce-1k", Rate: 100, MB: 0.1, checker: &checker{}},
		{System: "rhumb", Phase: "produce-1k", Rate: 300, MB: 0.3, checker: &checker{}},
		{System: "rhumb", Phase: "produce-1k", Rate: 200, MB: 0.2, checker: &checker{}},
		{System: "pulsar", Phase: "live-5k", P50: 1.5, P99: 20, checker: &checker{Repeated: 1}},
	})
	var out strings.Builder
	if err := printTable(&out, file); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"congestion control of TCP: ",
		"| | rhumb | pulsar |",
		"| produce-1k, records/s (MB/s) | 200 (0.2) | – |",
		"| live-5k, p50 / p99 ms | – | 1.5 / 20.0 (!) |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestOptionsThatMeasureNothing: they are refused before anything is installed.
func TestOptionsThatMeasureNothing(t *testing.T) {
	good := options{phases: allPhases, rounds: 1, seconds: time.Second, parts: 1, records: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*options){
		func(o *options) { o.rounds = 0 }, func(o *options) { o.seconds = 0 }, func(o *options) { o.parts = 0 },
		func(o *options) { o.records = 0 }, func(o *options) { o.phases = []string{"produce-2k"} },
	} {
		bad := good
		change(&bad)
		if bad.check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestCutPhaseIsNotKept: a figure of a phase that was interrupted is none.
func TestCutPhaseIsNotKept(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m := &machine{name: "rhumb", results: file}
	ctx, cancel := context.WithCancel(t.Context())
	if err := m.report(ctx, "produce-1k", &result{checker: &checker{}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := m.report(ctx, "consume-1k", &result{checker: &checker{}}); err == nil {
		t.Error("a phase that was cut counts")
	}
	if kept, err := os.ReadFile(file.Name()); err != nil || strings.Count(string(kept), "\n") != 1 {
		t.Errorf("%s, %v", kept, err)
	}
}

func TestTableHasLinesInTheirOrder(t *testing.T) {
	file := resultsFile(t, []result{
		{System: "rhumb", Phase: "80ms/cut live", P50: 41, P99: 60_000, Level: 2.5, checker: &checker{}},
		{System: "rhumb", Phase: "20ms copy", Rate: 1000, MB: 1, Share: 0.95, WorstShare: 0.5, checker: &checker{}},
		{System: "kafka", Phase: "20ms copy", Rate: 10, MB: 0.01, Lost: 3, checker: &checker{}},
	})
	var out strings.Builder
	if err := printTable(&out, file); err != nil {
		t.Fatal(err)
	}
	rest := out.String()
	for _, want := range []string{
		"| 80ms/cut live, p50 / p99 ms | 41.0 / 60000.0 | – |",
		"| 80ms/cut live, level again after, s | 2.5 | – |",
		"| 20ms copy, records/s (MB/s) | 1000 (1.0) | 10 (0.0) (!) |",
		"| 20ms copy, the smaller of the two by the larger in the last 30 s, in the worst 5 s | 0.95, 0.50 | 0.00, 0.00 (!) |",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("no %q in\n%s", want, rest)
		}
		rest = after
	}
}

func TestLastLate(t *testing.T) {
	l := newLatencies(true)
	l.add(time.Now().UnixNano())
	if !l.lastLate().IsZero() {
		t.Error("what comes in time is late")
	}
	l.add(time.Now().Add(-2 * lateAfter).UnixNano())
	if time.Since(l.lastLate()) > time.Minute {
		t.Error("what is late is not")
	}
}

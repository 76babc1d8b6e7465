package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// cell is the median of a system's runs of a phase.
type cell struct {
	rate, mb, p50, p99, cpu, client, rss float64
	level, share, worst                  float64
	runs                                 int
	wrong                                bool // in one of them something was lost, repeated, disordered or refused
}

// printTable prints the results of a file for people, as Markdown.
func printTable(w io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	runs := map[[2]string][]result{}
	var systems []string
	phases := slices.Clone(allPhases) // and lines, in the order of the file
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		r := result{checker: &checker{}}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		key := [2]string{r.System, r.Phase}
		runs[key] = append(runs[key], r)
		if !slices.Contains(phases, r.Phase) {
			phases = append(phases, r.Phase)
		}
		if !slices.Contains(systems, r.System) {
			systems = append(systems, r.System)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n\n| | %s |\n|---%s|\n", machineLine(), strings.Join(systems, " | "), strings.Repeat("|---", len(systems)))
	wrong := false
	for _, phase := range phases {
		cells := map[string]cell{}
		for _, s := range systems {
			if of := runs[[2]string{s, phase}]; len(of) > 0 {
				cells[s] = median(of)
				wrong = wrong || cells[s].wrong
			}
		}
		if len(cells) > 0 {
			printRows(w, phase, systems, cells)
		}
	}
	if !wrong {
		return nil
	}
	fmt.Fprintln(w, "\n(!): records were refused, repeated, disordered, or did not come in time; the lines of JSON say how many.")
	return nil
}

// printRows prints what systems did in a phase.
func printRows(w io.Writer, phase string, systems []string, cells map[string]cell) {
	row := func(what, format string, get func(cell) []any) {
		out := make([]string, 0, len(systems))
		for _, s := range systems {
			c, ok := cells[s]
			text := "–"
			if ok {
				text = fmt.Sprintf(format, get(c)...)
				if c.wrong {
					text += " (!)"
				}
			}
			out = append(out, text)
		}
		fmt.Fprintf(w, "| %s, %s | %s |\n", phase, what, strings.Join(out, " | "))
	}
	have := func(get func(cell) float64) bool {
		for _, c := range cells {
			if get(c) > 0 {
				return true
			}
		}
		return false
	}
	overLine := !slices.Contains(allPhases, phase)
	if strings.HasSuffix(phase, "-5k") || strings.HasSuffix(phase, " live") {
		row("p50 / p99 ms", "%.1f / %.1f", func(c cell) []any { return []any{c.p50, c.p99} })
	} else {
		row("records/s (MB/s)", "%.0f (%.1f)", func(c cell) []any { return []any{c.rate, c.mb} })
	}
	if have(func(c cell) float64 { return c.level }) {
		row("level again after, s", "%.1f", func(c cell) []any { return []any{c.level} })
	}
	if have(func(c cell) float64 { return c.share }) {
		row("the smaller of the two by the larger in the last 30 s, in the worst 5 s", "%.2f, %.2f", func(c cell) []any { return []any{c.share, c.worst} })
	}
	row("CPU s/GB: servers, clients", "%.1f, %.1f", func(c cell) []any { return []any{c.cpu, c.client} })
	if !overLine {
		row("RSS MB", "%.0f", func(c cell) []any { return []any{c.rss} })
	}
}

func median(runs []result) cell {
	of := func(get func(*result) float64) float64 {
		v := make([]float64, len(runs))
		for i := range runs {
			v[i] = get(&runs[i])
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return cell{
		runs:   len(runs),
		wrong:  slices.ContainsFunc(runs, func(r result) bool { return r.wrong() }),
		rate:   of(func(r *result) float64 { return r.Rate }),
		mb:     of(func(r *result) float64 { return r.MB }),
		p50:    of(func(r *result) float64 { return r.P50 }),
		p99:    of(func(r *result) float64 { return r.P99 }),
		cpu:    of(func(r *result) float64 { return r.CPU }),
		client: of(func(r *result) float64 { return r.Client }),
		rss:    of(func(r *result) float64 { return r.RSS }),
		level:  of(func(r *result) float64 { return r.Level }),
		share:  of(func(r *result) float64 { return r.Share }),
		worst:  of(func(r *result) float64 { return r.WorstShare }),
	}
}

// machineLine tells what of this machine matters to all systems.
func machineLine() string {
	control, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		control = []byte("unknown")
	}
	return fmt.Sprintf("%d CPUs; congestion control of TCP: %s", runtime.NumCPU(), bytes.TrimSpace(control))
}

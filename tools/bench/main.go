package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options is what the command line says.
type options struct {
	systems []string
	phases  []string
	rhumb   string // binary
	cache   string // where peers are installed
	dir     string // for data, removed at the end
	out     string // results
	seconds time.Duration
	linger  time.Duration // of Kafka's client
	parts   int
	rounds  int
	lines   []line   // bad lines; none: the matrix on the loopback interface
	records int64    // to copy over a bad line
	net     *network // where servers are; nil: the loopback interface
}

func main() {
	var o options
	systems := flag.String("systems", "kafka,kafka-fsync,pulsar,nats,rhumb", "what to measure, in this order: "+strings.Join(names(), ", "))
	phases := flag.String("phases", strings.Join(allPhases, ","), "what to do with each")
	flag.StringVar(&o.rhumb, "rhumb", "bin/rhumb", "the binary")
	flag.StringVar(&o.cache, "cache", defaultCache(), "where peers are installed")
	flag.StringVar(&o.dir, "dir", "", "where data go; default: a temporary directory")
	flag.StringVar(&o.out, "out", "bench-matrix.jsonl", "where results are appended")
	flag.DurationVar(&o.seconds, "time", 10*time.Second, "how long a phase produces")
	flag.DurationVar(&o.linger, "linger", time.Millisecond, "how long Kafka's client, which is Rhumb's too, waits for a batch to fill")
	flag.IntVar(&o.parts, "partitions", 6, "of each topic; a NATS stream has none")
	flag.IntVar(&o.rounds, "rounds", 1, "how often all systems take their turn")
	lines := flag.String("lines", "", "measure on bad lines in place of the loopback interface: "+defaultLines+", or \"all\" for these; the phases are live and copy then")
	flag.Int64Var(&o.records, "records", 100_000, "to copy over a bad line")
	install := flag.Bool("install", false, "only install the peers")
	only := flag.Bool("table", false, "only print the table of the results that are there")
	parse()
	o.systems, o.phases = strings.Split(*systems, ","), strings.Split(*phases, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends it at once
	var err error
	if *lines == "all" {
		*lines = defaultLines
	}
	if *lines != "" {
		o.lines, err = parseLines(*lines)
	}
	if err == nil && !*only {
		err = o.check()
	}
	switch {
	case err != nil:
	case *only:
	case *install:
		err = installAll(ctx, &o)
	case o.lines == nil:
		err = runAll(ctx, &o)
	case os.Getenv(ownNetwork) != "":
		err = runLines(ctx, &o)
	default:
		// What is to be installed comes over the network that the machine has.
		if err = checkNetwork(); err == nil {
			err = installAll(ctx, &o)
		}
		if err == nil {
			var code int
			if code, err = inOwnNetwork(ctx); err == nil {
				os.Exit(code)
			}
		}
	}
	if someLines := o.lines != nil && os.Getenv(ownNetwork) != ""; !*install && (err == nil || someLines) {
		err = errors.Join(err, printTable(os.Stdout, o.out))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// parse reads the command line; what is wrong with it is one line, and the flags are for who
// asks.
func parse() {
	flag.CommandLine.Init("bench", flag.ContinueOnError)
	flag.Usage = func() {}
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		flag.PrintDefaults()
		os.Exit(0)
	case err != nil:
		os.Exit(2) // it was said
	}
}

// check refuses what cannot be measured, before anything is installed for it.
func (o *options) check() error {
	switch {
	case o.rounds < 1:
		return fmt.Errorf("%d rounds measure nothing", o.rounds)
	case o.seconds <= 0:
		return fmt.Errorf("a phase cannot take %s", o.seconds)
	case o.parts < 1 || o.records < 1:
		return fmt.Errorf("%d partitions and %d records measure nothing", o.parts, o.records)
	}
	for _, p := range o.phases {
		if !slices.Contains(allPhases, p) {
			return fmt.Errorf("unknown phase %q: there are %s", p, strings.Join(allPhases, ", "))
		}
	}
	return nil
}

func defaultCache() string {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	return filepath.Join(base, "rhumb", "peers")
}

func installAll(ctx context.Context, o *options) error {
	for _, name := range o.systems {
		s, err := newSystem(name, o)
		if err == nil {
			err = s.install(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// runAll lets the systems take turns.
func runAll(ctx context.Context, o *options) error {
	if err := installAll(ctx, o); err != nil {
		return err
	}
	results, err := os.OpenFile(o.out, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer results.Close()
	for range o.rounds {
		for _, name := range o.systems {
			if err := runOne(ctx, o, name, results); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// runOne starts a system, does all phases and stops it.
func runOne(ctx context.Context, o *options, name string, results *os.File) (err error) {
	dir, err := os.MkdirTemp(o.dir, "bench-"+name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newSystem(name, o)
	if err != nil {
		return err
	}
	p := &processes{dir: dir}
	defer p.stop()
	m := &machine{options: o, name: name, system: s, processes: p, results: results}
	if err := s.start(ctx, p); err != nil {
		return fmt.Errorf("start: %w%s", err, p.lastWords())
	}
	for _, phase := range o.phases {
		if err := m.run(ctx, phase); err != nil {
			return fmt.Errorf("%s: %w%s", phase, err, p.lastWords())
		}
	}
	return nil
}

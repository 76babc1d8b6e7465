// Command sarama tries the client of that name on a Kafka server: see the
// package comment one folder up for what it does and prints.
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// patience bounds what a step waits for.
const patience = 60 * time.Second

// step is one line of output.
type step struct {
	name string
	do   func(context.Context) (string, error)
}

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "steps":
		os.Exit(runSteps(os.Args[2]))
	case len(os.Args) == 4 && os.Args[1] == "load":
		if err := load(os.Args[2], os.Args[3]); err != nil {
			fmt.Println("FAIL load:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "usage: sarama steps BOOTSTRAP | load BOOTSTRAP TOPIC")
		os.Exit(2)
	}
}

func runSteps(bootstrap string) (code int) {
	s, err := newSteps(bootstrap)
	if err != nil {
		fmt.Println("FAIL:", err)
		return 1
	}
	defer s.close()
	for _, step := range s.all() {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		said, err := step.do(ctx)
		cancel()
		if err != nil {
			fmt.Printf("FAIL %s: %v\n", step.name, err)
			code = 1
			continue
		}
		fmt.Printf("ok %s: %s (%.1f s)\n", step.name, said, time.Since(begin).Seconds())
	}
	return code
}

// until polls a condition until it holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := holds(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		} else if ok {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", patience, what)
		}
	}
}

// equal compares what is printed of two values.
func equal(what string, got, want any) error {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		return fmt.Errorf("%s: got %s, want %s", what, g, w)
	}
	return nil
}

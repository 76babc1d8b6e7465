package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	log := flag.String("log", "", "`file` with what the failed run printed")
	root := flag.String("root", "../..", "`folder` of the module whose tests they are")
	times := flag.Int("times", 5, "how often each must pass")
	most := flag.Int("most", 2, "how many tests may be unstable in one run")
	never := flag.String("never", "/e2e/sim", "`ends` of packages that are not excused, separated by commas")
	flag.Parse()
	if err := judge(*log, *root, *never, *times, *most, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(1)
	}
}

func judge(log, root, never string, times, most int, flags []string) error {
	f, err := os.Open(log)
	if err != nil {
		return err
	}
	defer f.Close()
	list := exec.Command("go", "list", "./...")
	list.Dir, list.Stderr = root, os.Stderr
	packages, err := list.Output()
	if err != nil {
		return err
	}
	failed, err := failures(f, strings.Fields(string(packages)), strings.Split(never, ","))
	if err != nil {
		return err
	}
	n := 0
	for _, p := range failed {
		n += len(p.tests)
	}
	if n > most {
		return fmt.Errorf("%d tests failed, at most %d may be unstable", n, most)
	}
	for _, p := range failed { // named first: a run's last lines are those of go test
		for _, t := range p.tests {
			fmt.Printf("UNSTABLE if it passes %d times alone, to be mended: %s.%s\n", times, p.pkg, t)
		}
	}
	for _, p := range failed {
		if err := again(root, p, times, flags); err != nil {
			return fmt.Errorf("%s: %w", p.pkg, err)
		}
	}
	return nil
}

// again runs the failed tests of one package, and nothing else of it. Each has to pass
// as often as it runs: one that skips, or is not there, does not.
func again(root string, p failure, times int, flags []string) error {
	args := append([]string{"test", "-v", fmt.Sprintf("-count=%d", times)}, flags...)
	args = append(args, "-run", "^("+strings.Join(p.tests, "|")+")$", p.pkg)
	cmd := exec.Command("go", args...)
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, io.MultiWriter(os.Stdout, &said), os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New("a test failed again")
	}
	for _, t := range p.tests {
		if n := strings.Count("\n"+said.String(), "\n--- PASS: "+t+" ("); err == nil && n != times {
			return fmt.Errorf("%s passed %d times of %d", t, n, times)
		}
	}
	return err
}

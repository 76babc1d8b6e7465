package session

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/internal/rhumb"
	"pgregory.net/rapid"
)

// A story is a text file of commands ("> ...") to a source, a link and a
// destination, each followed by what came of it. Frames move only when they are
// told to; reads, comparisons of chains and the region's answers come at once,
// unless the story holds them back. Run with -rewrite to write what comes of the
// commands into the files, and read the difference.

var rewrite = flag.Bool("rewrite", false, "write the stories' outcomes anew")

// play runs a story of testdata.
func play(t rapid.TB, name string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := &story{pair: newPair(3000, t.Fatalf), out: &out}
	s.pair.trace = func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	for scan := bufio.NewScanner(strings.NewReader(string(text))); scan.Scan(); {
		line := scan.Text()
		command, isCommand := strings.CutPrefix(line, "> ")
		switch {
		case isCommand:
			out.WriteString(line + "\n")
			if err := s.do(strings.Fields(command)); err != nil {
				t.Fatalf("%s: %q: %v", path, line, err)
			}
			s.atOnce()
		case line == "" || strings.HasPrefix(line, "#"):
			out.WriteString(line + "\n")
		}
	}
	switch {
	case *rewrite:
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case out.String() != string(text):
		t.Errorf("%s goes another way:\n%s", path, out.String())
	}
}

type story struct {
	*pair
	out       *strings.Builder
	holdReads bool
}

// atOnce does what takes no time in a story.
func (s *story) atOnce() {
	for {
		switch {
		case len(s.results) > 0:
			s.result(0)
		case len(s.checks) > 0:
			s.check(0)
		case len(s.reads) > 0 && !s.holdReads:
			s.read(0)
		default:
			return
		}
	}
}

func (s *story) do(words []string) error {
	verb, object := words[0], ""
	n := 1
	for _, w := range words[1:] {
		if v, err := strconv.Atoi(w); err == nil {
			n = v
		} else {
			object = strings.TrimSpace(object + " " + w)
		}
	}
	if s.atSource(verb, object, n) || s.atDestination(verb, object, n) || s.onLink(verb, object, n) || s.tell(verb) {
		return nil
	}
	return fmt.Errorf("no such command")
}

func (s *story) atSource(verb, object string, n int) bool {
	switch verb + " " + object {
	case "write batches": // of one record
		for range n {
			s.src.own(1, 0)
		}
	case "write records": // in one batch
		s.src.own(int32(n), 0)
	case "write bytes": // in one batch
		s.src.own(1, n)
	case "others write":
		s.src.end += rhumb.Offset(n)
	case "flush ":
		s.src.flushed = s.src.end
		s.grown()
	case "drop batches":
		s.src.drop(s.src.dropped + n)
		s.grown()
	case "start latest":
		s.src.start = s.src.pointBefore(len(s.src.batches))
	case "crash source":
		s.cut()
		s.src.crash()
		s.reads = nil
		s.snd = NewSender(s.snd.cfg)
		s.watch = watch{}
	case "restore batches": // an old copy of the source's disk
		s.src.cut(s.src.pointBefore(n).Offset + 1)
		s.src.written += 500
	case "re-create topic":
		s.create()
	case "hold reads":
		s.holdReads = true
	case "finish read":
		s.read(n - 1)
	default:
		return false
	}
	return true
}

func (s *story) atDestination(verb, object string, n int) bool {
	switch verb + " " + object {
	case "apply ":
		for range n {
			s.apply()
			s.atOnce()
		}
	case "fail next":
		s.dst.failNext = rhumb.Errorf(rhumb.KindUnavailable, "no leader")
	case "over quota":
		s.dst.failNext = rhumb.Errorf(rhumb.KindNoSpace, "quota of the namespace")
	case "lose leader": // n of what waits stay in the log
		s.dst.loseLeader(n, rhumb.Errorf(rhumb.KindNotLeader, "no leader"))
	case "crash destination":
		s.dst.crash()
		s.results, s.held = nil, 0
		s.cut()
	default:
		return false
	}
	return true
}

func (s *story) onLink(verb, object string, n int) bool {
	switch verb + " " + object {
	case "open ":
		s.open()
	case "cut ":
		s.cut()
	case "quiet ":
		s.snd.OnQuiet()
		s.settleActions()
	case "deliver ":
		for range n {
			s.deliver(0)
			s.atOnce()
		}
	case "answer ":
		for range n {
			s.answer(0)
			s.atOnce()
		}
	case "lose frame":
		s.toDst = append(s.toDst[:n-1:n-1], s.toDst[n:]...)
	case "lose answer":
		s.toSrc = append(s.toSrc[:n-1:n-1], s.toSrc[n:]...)
	case "run ": // until nothing moves
		for s.step() {
			s.atOnce()
		}
	default:
		return false
	}
	return true
}

func (s *story) tell(verb string) bool {
	switch verb {
	case "status":
		st := s.snd.Status()
		fmt.Fprintf(s.out, "%s: confirmed %d, sent %d, %d bytes in flight", st.State, st.Confirmed, st.Sent, st.InFlight)
		if st.Text != "" {
			fmt.Fprintf(s.out, "; %s", st.Text)
		}
		s.out.WriteString("\n")
	case "stored":
		s.out.WriteString("stored")
		for _, m := range s.dst.stored[s.src.life] {
			fmt.Fprintf(s.out, " %d..%d", m.Envelope.First, m.Envelope.Last)
		}
		for _, g := range s.dst.gaps[s.src.life] {
			fmt.Fprintf(s.out, "; gap %d..%d %s", g.From+1, g.To, g.Reason)
		}
		w := s.dst.open(s.src.life)
		fmt.Fprintf(s.out, "; watermark %d, floor %d\n", w.Offset, w.Floor)
	case "verify":
		s.verify()
	default:
		return false
	}
	return true
}

// TestEveryStoryIsPlayed: a file that no test plays proves nothing.
func TestEveryStoryIsPlayed(t *testing.T) {
	code, err := os.ReadFile("cases_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".txt")
		if !strings.Contains(string(code), `play(t, "`+name+`")`) {
			t.Errorf("no test plays %s", f)
		}
	}
}

package clients

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/e2e/process"
)

// notForUs are the tests of franz-go's suite that a region cannot pass, with what
// they need. docs/compat-kafka.md lists them, too.
var notForUs = map[string]string{
	"TestTxnEtl":                               "transactions",
	"TestShareGroup":                           "share groups",
	"TestShareGroupETL":                        "share groups",
	"TestShareGroupAckOnClose":                 "share groups",
	"TestShareGroupOffsetsAdmin":               "share groups",
	"TestConsumeRegexShareSkipsInternal":       "share groups",
	"Test848RegexBrokerResolves":               "KIP-848 groups",
	"TestGroupSimple/848":                      "KIP-848 groups",
	"TestGroupETL/range/848":                   "KIP-848 groups",
	"TestGroupETL/sticky/848":                  "KIP-848 groups",
	"TestGroupETL/sticky/848/static":           "KIP-848 groups",
	"TestConsumeRegex":                         "an internal topic: a region keeps offsets in its log, not in one",
	"TestOAuthAuth":                            "OAUTHBEARER",
	"TestIssueProduceBrokerTooOldFailsRecords": "a server that has no Produce version 3; real Kafka skips it, too",
}

// franz-go's own tests of its client run unchanged, from a copy of its module.
func TestFranzGoSuite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	suite := installed(t, "franz-go", "franz-go/kgo.test")
	m := process.Start(t, "us")
	login := addLogin(t, m)
	ctx, cancel := context.WithTimeout(context.Background(), 11*process.Limit)
	defer cancel()
	var skip []string // subtests are left to skip themselves
	for name, why := range notForUs {
		if !strings.Contains(name, "/") && why != "" {
			skip = append(skip, "^"+name+"$")
		}
	}
	cmd := exec.CommandContext(ctx, suite, "-test.v", "-test.timeout=10m", "-test.skip="+strings.Join(skip, "|"))
	cmd.Dir = filepath.Join(filepath.Dir(suite), "src", "pkg", "kgo")
	cmd.Env = append(os.Environ(), "KGO_SEEDS="+m.Region("us").Kafka, "KGO_TEST_RF=1", "KGO_TEST_RECORDS=20000", "KGO_LOG_LEVEL=none",
		"KGO_TEST_SCRAM_SEEDS="+login, "KGO_TEST_SCRAM=alice:secret:512")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	passed := 0
	for _, m := range regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): (\S+)`).FindAllStringSubmatch(out.String(), -1) {
		switch result, name := m[1], m[2]; {
		case result == "PASS":
			passed++
		case result == "SKIP" && notForUs[name] != "":
			t.Logf("%s needs %s", name, notForUs[name])
		case result == "FAIL" && hasFailingSubtest(out.String(), name): // its subtest tells
		default:
			t.Errorf("%s: %s", name, result)
		}
	}
	t.Logf("%d tests passed", passed)
	if err != nil || passed < 100 {
		log := filepath.Join(os.TempDir(), "rhumb-franz-go-suite.log")
		os.WriteFile(log, out.Bytes(), 0o644) // whoever reads this message finds it or not
		t.Fatalf("the suite: %v; its output is in %s\n%s", err, log, failures(out.String()))
	}
}

func hasFailingSubtest(out, name string) bool { return strings.Contains(out, "--- FAIL: "+name+"/") }

// failures gives the lines that a test printed itself.
func failures(out string) string {
	lines := regexp.MustCompile(`(?m)^\s+\w+_test\.go:.*$|^panic:.*$`).FindAllString(out, -1)
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "deleting ") })
	return tail(strings.Join(lines, "\n"))
}

// The page for users names each of them.
func TestUnservedTestsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/compat-kafka.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range notForUs {
		if !strings.Contains(string(page), "`"+strings.TrimPrefix(name, "Test")+"`") {
			t.Errorf("docs/compat-kafka.md does not name %s, which needs %s", name, why)
		}
	}
}

package rhumb_test

import (
	"errors"
	"flag"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

var rewrite = flag.Bool("rewrite", false, "write docs/configuration.md anew")

func readDoc(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// rows gives the cells of a page's table rows whose first cell matches.
func rows(page string, first *regexp.Regexp) [][]string {
	var out [][]string
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if strings.HasPrefix(line, "|") && first.MatchString(cells[0]) {
			out = append(out, cells)
		}
	}
	return out
}

// code takes the backquotes off.
func code(cell string) string { return strings.Trim(cell, "`") }

const configurationHead = `# Configuration

The keys of the file that ` + "`rhumb server --config`" + ` takes, with their defaults. ` + "`docs/operating.md`" + ` has a whole file with
comments. Unknown keys are refused, and every refusal names the line. Relative paths are taken from the file's directory.
Sizes are written 1048588, 64MiB, 1GiB; lengths of time 500ms, 30s, 12h, 7d; -1 is no limit where that is allowed.

This page is made from the code: ` + "`go test . -run TestConfigurationPageIsFresh -rewrite`" + `.

`

func TestConfigurationPageIsFresh(t *testing.T) {
	want := configurationHead + config.Reference()
	if *rewrite {
		if err := os.WriteFile("docs/configuration.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readDoc(t, "configuration.md") != want {
		t.Error("docs/configuration.md is not what the code says: go test . -run TestConfigurationPageIsFresh -rewrite")
	}
}

// TestOperatingFileLoads loads the file that the handbook shows.
func TestOperatingFileLoads(t *testing.T) {
	_, block, found := strings.Cut(readDoc(t, "operating.md"), "```yaml\n# region.yaml\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/operating.md shows no region.yaml")
	}
	path := filepath.Join(t.TempDir(), "region.yaml")
	if err := os.WriteFile(path, []byte(block), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	d := config.Defaults()
	if c.Limits != d.Limits || c.Kafka != d.Kafka || c.MinFree != d.MinFree || c.Durability != d.Durability || c.Shards != d.Shards {
		t.Errorf("the file says that it shows the defaults of durability, shards, limits, min_free and kafka: %+v", c)
	}
}

// TestMetricsPageNamesAll compares the page with the names in the code; a test of
// the server compares it with a scrape.
func TestMetricsPageNamesAll(t *testing.T) {
	name := regexp.MustCompile(`^rhumb_[a-z_]+$`)
	built := map[string]bool{}
	for _, f := range parseTree(t) {
		if f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && name.MatchString(strings.Trim(lit.Value, `"`)) {
				built[strings.Trim(lit.Value, `"`)] = true
			}
			return true
		})
	}
	listed := map[string]bool{}
	for _, row := range rows(readDoc(t, "metrics.md"), regexp.MustCompile("^`rhumb_")) {
		listed[code(row[0])] = true
	}
	if diff := difference(built, listed); len(diff) > 0 || len(built) == 0 {
		t.Errorf("metrics that only the code (+) or only docs/metrics.md (-) has: %v", diff)
	}
}

// TestReadmeListsAllPages: what nobody is led to is not read.
func TestReadmeListsAllPages(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if !strings.Contains(string(readme), "`"+page+"`") {
			t.Errorf("README.md does not name %s", page)
		}
	}
}

func difference(a, b map[string]bool) []string {
	var out []string
	for k := range a {
		if !b[k] {
			out = append(out, "+"+k)
		}
	}
	for k := range b {
		if !a[k] {
			out = append(out, "-"+k)
		}
	}
	slices.Sort(out)
	return out
}

// TestLimitsPageIsTrue compares each limit that the page says where to find with
// its setting's default, or with the constant in the code.
func TestLimitsPageIsTrue(t *testing.T) {
	defaults, listed := map[string]string{}, map[string]bool{}
	for _, f := range config.Fields() {
		defaults[f.Path] = f.Default
	}
	for _, row := range rows(readDoc(t, "limits.md"), regexp.MustCompile(`.`)) {
		if len(row) < 3 || !strings.HasPrefix(row[2], "`") {
			continue // another table, or no constant
		}
		value, where := code(row[1]), code(row[2])
		if file, name, isConstant := strings.Cut(where, ": "); isConstant {
			if err := sameAsConstant(value, file, name); err != nil {
				t.Errorf("%s, %s: %v", row[0], where, err)
			}
			continue
		}
		listed[where] = true
		if defaults[where] != value {
			t.Errorf("%s: %s is %q, not %q", row[0], where, defaults[where], value)
		}
	}
	for _, f := range config.Fields() {
		if strings.HasPrefix(f.Path, "limits.") && !listed[f.Path] {
			t.Errorf("docs/limits.md lacks %s", f.Path)
		}
	}
}

// TestDocsNameWhatIsThere: files, and tests by name, that the pages name exist.
func TestDocsNameWhatIsThere(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range parseTree(t) {
		for name := range testsOf(f) {
			tests[name] = true
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	spans := regexp.MustCompile("`[^`\n]+`")
	file := regexp.MustCompile(`^[a-z_/\-0-9]+/[A-Za-z_\-0-9]+\.(go|md|yaml|txt)$`)
	for _, page := range append(pages, "README.md", "CONTRIBUTING.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, span := range spans.FindAllString(string(raw), -1) {
			span = code(span)
			if testName.MatchString(span) && !tests[span] {
				t.Errorf("%s names %s, which is no test", page, span)
			}
			if _, err := os.Stat(span); file.MatchString(span) && errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s names %s, which is no file", page, span)
			}
		}
	}
}

var testName = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]+$`)

// testsOf gives the tests that a file declares.
func testsOf(f sourceFile) map[string]bool {
	out := map[string]bool{}
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
			out[fn.Name.Name] = true
		}
	}
	return out
}

// TestCasesPageNamesItsTests: a test that is named after a case stands in that
// case's row.
func TestCasesPageNamesItsTests(t *testing.T) {
	caseID := regexp.MustCompile(`^[GH][0-9]+$`)
	text := map[string]string{}
	for _, row := range rows(readDoc(t, "cases.md"), caseID) {
		if text[row[0]] != "" {
			t.Errorf("%s stands twice", row[0])
		}
		text[row[0]] = strings.Join(row[1:], " ")
	}
	inName := regexp.MustCompile(`^Test((?:[GHI][0-9]+)+)`)
	each := regexp.MustCompile(`[GH][0-9]+`)
	for _, f := range parseTree(t) {
		for name := range testsOf(f) {
			m := inName.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			for _, id := range each.FindAllString(m[1], -1) {
				if !strings.Contains(text[caseNumber(id)], "`"+name+"`") {
					t.Errorf("docs/cases.md, %s: %s is not named", caseNumber(id), name)
				}
			}
		}
	}
}

// caseNumber gives a case's id as the page writes it: G01 and G1 are G01.
func caseNumber(id string) string {
	if id[0] == 'G' && len(id) == 2 {
		return "G0" + id[1:]
	}
	return id
}

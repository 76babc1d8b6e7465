package rhumb_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Limits of size. They are not about beauty: a function that does not fit on a
// screen is not reviewed, and a file past its limit holds two concepts.
const (
	maxFunctionLines = 70
	maxFileLines     = 800
)

// flatTables are functions that are long because they are one flat switch or
// one literal, where splitting would hide the table.
var flatTables = map[string]bool{}

type sourceFile struct {
	path string
	set  *token.FileSet
	ast  *ast.File
}

func (f sourceFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// uses gives the places where the file has pkg.name.
func (f sourceFile) uses(pkg, name string) (at []token.Position) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == name {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == pkg {
				at = append(at, f.set.Position(n.Pos()))
			}
		}
		return true
	})
	return at
}

func (f sourceFile) lines(n ast.Node) int {
	return f.set.Position(n.End()).Line - f.set.Position(n.Pos()).Line + 1
}

func parseTree(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "tools" || path != "." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		files = append(files, sourceFile{path, set, f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestFunctionsAndFilesAreShort(t *testing.T) {
	for _, f := range parseTree(t) {
		if n := f.set.Position(f.ast.End()).Line; n > maxFileLines {
			t.Errorf("%s has %d lines; split it by concept (at most %d)", f.path, n, maxFileLines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || flatTables[fn.Name.Name] {
				continue
			}
			if n := f.lines(fn); n > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, at most %d", f.set.Position(fn.Pos()), fn.Name.Name, n, maxFunctionLines)
			}
		}
	}
}

// TestTestsDoNotSleep: a sleep is either too short (flaky) or too long; wait
// for a condition, or use virtual time.
func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range parseTree(t) {
		if !f.isTest() || inBubbles(f.ast) {
			continue
		}
		for _, at := range f.uses("time", "Sleep") {
			t.Errorf("%s: time.Sleep in a test; wait for a condition", at)
		}
	}
}

const bubblePath = "github.com/rhumbmq/rhumb/internal/bubble"

// inBubbles: in a bubble a sleep is virtual, exact and free.
func inBubbles(f *ast.File) bool {
	for _, imp := range f.Imports {
		if imp.Path.Value == `"testing/synctest"` || imp.Path.Value == strconv.Quote(bubblePath) {
			return true
		}
	}
	return false
}

// TestBubblesAreOurs: the race detector crashes in bubbles that package bubble did not make.
func TestBubblesAreOurs(t *testing.T) {
	for _, f := range parseTree(t) {
		if f.ast.Name.Name == "bubble" {
			continue
		}
		for _, at := range f.uses("synctest", "Test") {
			t.Errorf("%s: synctest.Test; use bubble.Test of %s", at, bubblePath)
		}
	}
}

func TestPackagesAndExportsAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	packages := map[string]string{}
	for _, f := range parseTree(t) {
		if f.isTest() {
			continue
		}
		dir := filepath.Dir(f.path)
		packages[dir] = f.path
		documented[dir] = documented[dir] || f.ast.Doc != nil
		for _, d := range f.ast.Decls {
			checkDoc(t, f, d)
		}
	}
	for dir, path := range packages {
		if !documented[dir] {
			t.Errorf("package of %s has no package comment", path)
		}
	}
}

func checkDoc(t *testing.T, f sourceFile, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			t.Errorf("%s: %s has no doc comment", f.set.Position(d.Pos()), d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && ts.Doc == nil && d.Doc == nil {
				t.Errorf("%s: type %s has no doc comment", f.set.Position(ts.Pos()), ts.Name.Name)
			}
		}
	}
}

// exportedReceiver is false for methods of unexported types: those are read by
// who reads the type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}

func TestNothingIsNamedForNothing(t *testing.T) {
	for _, f := range parseTree(t) {
		for _, part := range strings.FieldsFunc(filepath.ToSlash(f.path), func(r rune) bool { return r == '/' || r == '.' || r == '_' }) {
			switch part {
			case "util", "utils", "common", "helpers", "misc", "types":
				t.Errorf("%s: name it for what it holds, not %q", f.path, part)
			}
		}
	}
}

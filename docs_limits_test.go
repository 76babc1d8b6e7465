package rhumb_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"

	"github.com/rhumbmq/rhumb/cmd/rhumb/config"
)

// sameAsConstant compares a page's value with a constant of a file.
func sameAsConstant(value, file, name string) error {
	want, err := readValue(value)
	if err != nil {
		return err
	}
	have, err := constantOf(file, name)
	if err == nil && have != want {
		err = fmt.Errorf("the code has %d, the page %s, which is %d", have, value, want)
	}
	return err
}

// readValue reads 10000, 10,000, 64MiB, 10s (in nanoseconds).
func readValue(s string) (int64, error) {
	if n, err := strconv.ParseInt(strings.ReplaceAll(s, ",", ""), 10, 64); err == nil {
		return n, nil
	}
	if b, err := config.ParseBytes(s); err == nil {
		return int64(b), nil
	}
	d, err := config.ParseDuration(s)
	return int64(d), err
}

// constantOf evaluates a constant, or a package variable that is one in all but
// name, whose expression names nothing but units of time.
func constantOf(file, name string) (int64, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return 0, err
	}
	var expr ast.Expr
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for i, id := range spec.Names {
				if id.Name == name && i < len(spec.Values) {
					expr = spec.Values[i]
				}
			}
		}
		return expr == nil
	})
	if expr == nil {
		return 0, fmt.Errorf("%s has no constant %s", file, name)
	}
	var text bytes.Buffer
	if err := format.Node(&text, set, expr); err != nil {
		return 0, err
	}
	units := strings.NewReplacer("time.Microsecond", "1000", "time.Millisecond", "1000000", "time.Second", "1000000000",
		"time.Minute", "60000000000", "time.Hour", "3600000000000")
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, units.Replace(text.String()))
	if err != nil {
		return 0, fmt.Errorf("%s = %s: %w", name, text.String(), err)
	}
	n, exact := constant.Int64Val(constant.ToInt(v.Value))
	if !exact {
		return 0, fmt.Errorf("%s = %s is no whole number", name, text.String())
	}
	return n, nil
}

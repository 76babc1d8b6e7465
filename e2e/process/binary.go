package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// build makes the binary once per test run. The go command's cache makes a
// second run cheap.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rhumb-binary-")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "rhumb")
	// Without tables for debuggers, which take half of the linker's time.
	args := append([]string{"build", "-ldflags=-s -w", "-o", path}, raceFlags...)
	cmd := exec.Command("go", append(args, "github.com/rhumbmq/rhumb/cmd/rhumb")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rhumb: %w\n%s", err, out)
	}
	return path, nil
})

var binaryDir string // "" as long as nothing was built

// Binary gives the path of the binary under test.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is the TestMain of packages that use Binary: it runs the tests and
// removes the binary.
func Main(m *testing.M) {
	code := m.Run()
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

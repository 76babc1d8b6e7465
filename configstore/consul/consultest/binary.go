package consultest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// tool is the package that is built, module the folder of the module that pins it,
// from the root of the repository.
const tool = "github.com/hashicorp/consul"

var module = filepath.Join("tools", "consul")

// Binary gives the path of a consul binary. The first call on a machine builds it,
// which takes minutes; what it built stays in the user's cache folder until the
// pinned version changes. Where it cannot be built, without network say, the test
// is skipped, but fails where CI=true.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("consultest: no consul to test with: %v", err)
	}
	if err != nil {
		t.Fatalf("consultest: no consul to test with: %v", err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	stamp, err := version(filepath.Join(root, module))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "rhumb", "consul")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "consul-"+stamp)
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tmp := path + ".tmp" // one builder at a time
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", tmp, tool)
	cmd.Dir = filepath.Join(root, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", tool, err, out)
	}
	return path, os.Rename(tmp, path)
})

// repository gives the root of this module.
func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	mod := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(mod) != "go.mod" {
		return "", errors.Join(err, fmt.Errorf("no go.mod found: %q", mod))
	}
	return filepath.Dir(mod), nil
}

// version names what the module pins.
func version(dir string) (string, error) {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		h.Write(raw)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// lock waits for a lock between processes.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			return func() { f.Close() }, err
		}
	}
}

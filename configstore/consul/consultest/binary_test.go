package consultest

import (
	"os/exec"
	"strings"
	"testing"
)

// The binary is what the module pins. make test runs this first and alone: at an
// empty cache it takes minutes.
func TestConsulIsBuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("building takes minutes at an empty cache")
	}
	out, err := exec.Command(Binary(t), "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Consul v") {
		t.Fatalf("%v: %s", err, out)
	}
}

package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// silent is an API that takes requests and never answers; asked tells of each.
func silent(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	ch, stop := make(chan struct{}, 8), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		ch <- struct{}{}
		<-stop
	}))
	t.Cleanup(func() {
		close(stop)
		web.Close()
	})
	return web.URL, ch
}

func runIn(ctx context.Context, args ...string) (code int, stderr string) {
	root := &cobra.Command{Use: "rhumb"}
	AddCommands(root)
	var out, errOut bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errOut)
	code = Run(ctx, root, args, &errOut)
	return code, errOut.String()
}

// TestInterruptedCommandSaysSo: Ctrl-C and SIGTERM are no fault of the region.
func TestInterruptedCommandSaysSo(t *testing.T) {
	url, asked := silent(t)
	for _, c := range []struct {
		args    []string
		perhaps bool
	}{
		{[]string{"topic", "list"}, false},
		{[]string{"topic", "create", "orders"}, true},
		{[]string{"verify", "us", "eu"}, false},
		{[]string{"topic", "list", "--region", "eu"}, false},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		go func() {
			<-asked
			interrupt()
		}()
		code, errOut := runIn(ctx, append(c.args, "--addr", url)...)
		if code != exitUnknown || !strings.Contains(errOut, "interrupted") || strings.Contains(errOut, "cannot reach") ||
			strings.Contains(errOut, "may or may not") != c.perhaps {
			t.Errorf("%v: exit code %d: %s", c.args, code, errOut)
		}
	}
}

func TestTimeoutEndsACommand(t *testing.T) {
	url, _ := silent(t)
	for _, args := range [][]string{{"topic", "list"}, {"topic", "delete", "orders"}, {"verify", "us", "eu"}} {
		code, errOut := runIn(t.Context(), append(args, "--addr", url, "--timeout", "50ms")...)
		if code != exitUnknown || !strings.Contains(errOut, "the time is over: the admin API at "+url+" has not answered; the region hangs") {
			t.Errorf("%v: exit code %d: %s", args, code, errOut)
		}
	}
}

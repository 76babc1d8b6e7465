package admin_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/rhumbmq/rhumb/internal/bubble"
)

// large sends the header of a produce call whose body is of n bytes, and the beginning
// of that.
func large(l *pipes, from string, n int) net.Conn {
	c := l.dial(from)
	go fmt.Fprintf(c, "POST /admin/v1/topics/public/default/orders/records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nAuthorization: Bearer %sadmin\r\n\r\n{\"records\": ", n, secret)
	return c
}

func statusOf(t *testing.T, c net.Conn, request string) int {
	t.Helper()
	if request != "" {
		go io.WriteString(c, request)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestI9LargeCallsShareABudget: bodies of megabytes that are in memory at the same time
// have a budget of all calls. Who finds it used up waits, and is refused in the end;
// small calls go on, and one that ends makes room, as does one whose client is gone.
func TestI9LargeCallsShareABudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := running(t)
		const size = 16 << 20
		first, second := large(l, "192.0.2.1:1", size), large(l, "192.0.2.1:2", size)
		synctest.Wait()
		third := large(l, "192.0.2.1:3", size)
		get := "GET /admin/v1/topics/public/default/orders/partitions/0/records HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + secret + "admin\r\n\r\n"
		reader := l.dial("192.0.2.1:4")
		go io.WriteString(reader, get)
		synctest.Wait()

		small := large(l, "192.0.2.1:5", 15)
		if code := statusOf(t, small, "7}{"); code != http.StatusBadRequest {
			t.Errorf("a small body while large ones hold the budget: %d, want it to be looked at", code)
		}
		if code := statusOf(t, third, ""); code != http.StatusServiceUnavailable {
			t.Errorf("a third large body: %d", code)
		}
		if code := statusOf(t, reader, ""); code != http.StatusServiceUnavailable {
			t.Errorf("records to read: %d", code)
		}

		first.Close()
		synctest.Wait()
		again := l.dial("192.0.2.1:6")
		if code := statusOf(t, again, get); code != http.StatusOK {
			t.Errorf("records to read once there is room: %d", code)
		}
		for _, c := range []net.Conn{second, third, reader, small, again} {
			c.Close()
		}
	})
}

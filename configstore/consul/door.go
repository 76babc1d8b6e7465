package consul

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// maxAnswerBytes bounds one answer of Consul: some 300,000 documents of topics.
const maxAnswerBytes = 256 << 20

// maxTokenBytes bounds a token file.
const maxTokenBytes = 4 << 10

// silence is how long Consul may say nothing, beside what a blocking query asked it
// to wait: an agent that hangs, or an address behind which everything is dropped, is
// a store that is down.
const silence = 8 * time.Second

var errSilent = fmt.Errorf("no answer within %s", silence)

// door is what every request to Consul passes: it shows the token of the moment,
// and bounds what comes back, and for how long nothing does.
type door struct {
	transport http.RoundTripper
	token     token
}

// RoundTrip implements [http.RoundTripper].
func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	value, err := d.token.get()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	r = r.Clone(ctx)
	if value != "" {
		r.Header.Set("X-Consul-Token", value)
	}
	timer := time.AfterFunc(silence+asked(r), func() { cancel(errSilent) })
	resp, err := d.transport.RoundTrip(r)
	if err != nil {
		timer.Stop()
		if context.Cause(ctx) == errSilent {
			err = errSilent
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxAnswerBytes, ctx: ctx, timer: timer, cancel: cancel}
	return resp, nil
}

// asked is how long a blocking query may take at Consul, which draws its wait out by
// up to a sixteenth.
func asked(r *http.Request) time.Duration {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil {
		return 0
	}
	return wait + wait/16
}

// boundedBody fails where an answer passes its bound, so that a cut answer is not
// taken for a whole one, and when nothing comes of it any more.
type boundedBody struct {
	io.ReadCloser
	left   int64
	ctx    context.Context
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// Close implements [io.Closer].
func (b *boundedBody) Close() error {
	b.timer.Stop()
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswerBytes)
	}
	b.timer.Reset(silence)
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.timer.Stop()
	b.left -= int64(n)
	if err != nil && err != io.EOF && context.Cause(b.ctx) == errSilent {
		err = errSilent
	}
	return n, err
}

// token is an ACL token, of a file or fixed.
type token struct {
	path string // "": value is fixed

	mu    sync.Mutex
	value string
	size  int64
	mtime time.Time
}

// get gives the token of the moment. A file that cannot be read just now, because
// it is being replaced, say, leaves the token before it in use.
func (t *token) get() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.path == "" {
		return t.value, nil
	}
	st, err := os.Stat(t.path)
	if err == nil && t.value != "" && st.Size() == t.size && st.ModTime().Equal(t.mtime) {
		return t.value, nil
	}
	var raw []byte
	if err == nil {
		raw, err = readToken(t.path)
	}
	switch {
	case err == nil:
		t.value, t.size, t.mtime = string(raw), st.Size(), st.ModTime()
	case t.value == "":
		return "", err
	}
	return t.value, nil
}

func readToken(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenBytes+1))
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	value := bytes.TrimSpace(raw)
	if len(value) == 0 || len(raw) > maxTokenBytes || bytes.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("token file %s: holds no token: one line of visible ASCII is wanted", path)
	}
	return value, nil
}

// Package client calls a region's admin API. The command line, verify and tests
// use it. Errors carry the kind that the server gave; a server that cannot be
// reached is of kind unavailable.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rhumbmq/rhumb/broker/admin/api"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// maxAnswer bounds an answer that is held in memory: lists of very many topics
// are large.
const maxAnswer = 1 << 30

// Config says how to reach a region.
type Config struct {
	// URL of the admin API, such as http://127.0.0.1:8080. A bare host:port is http.
	URL string
	// Token is sent as bearer token if not empty.
	Token string
	// CACert is a file of PEM certificates that the server's is checked with.
	// Empty: those of the system.
	CACert string
	// Cert and Key are PEM files of a client certificate, shown to servers that ask
	// for one. Both or neither.
	Cert, Key string
	// Transport carries the requests instead of the network, for tests of whole
	// meshes in one process. Nil: HTTP.
	Transport http.RoundTripper
}

// Client calls one region's API. Its methods may run at the same time.
type Client struct {
	base   *url.URL
	token  string
	http   *http.Client
	within atomic.Pointer[[]rhumb.Tenant]
}

// Within gives the tenants to which the region has cut what it answered so far, since
// the caller may see no more; nil if all of it was about the whole mesh. What a list
// does not have then may be there all the same.
func (c *Client) Within() []rhumb.Tenant {
	if all := c.within.Load(); all != nil {
		return *all
	}
	return nil
}

// noteWithin remembers to what an answer was cut.
func (c *Client) noteWithin(header string) {
	if header == "" {
		return
	}
	all := []rhumb.Tenant{}
	for name := range strings.SplitSeq(header, ",") {
		all = append(all, rhumb.Tenant(strings.TrimSpace(name)))
	}
	c.within.Store(&all)
}

// New makes a client; it connects at the first call.
func New(cfg Config) (*Client, error) {
	text := cfg.URL
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(strings.TrimRight(text, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "address %q must be a URL like http://127.0.0.1:8080", cfg.URL)
	}
	if cfg.Transport != nil {
		return &Client{base: base, token: cfg.Token, http: &http.Client{Transport: cfg.Transport}}, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = 90 * time.Second
	if transport.TLSClientConfig, err = cfg.tls(); err != nil {
		return nil, err
	}
	return &Client{base: base, token: cfg.Token, http: &http.Client{Transport: transport}}, nil
}

// tls reads the certificates that are named.
func (c *Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CACert != "" {
		pem, err := os.ReadFile(c.CACert)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "CA certificates: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "CA certificates: no certificate in %s", c.CACert)
		}
	}
	if c.Cert == "" && c.Key == "" {
		return out, nil
	}
	if c.Cert == "" || c.Key == "" {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "a client certificate needs both its file and that of its key (RHUMB_CERT, RHUMB_KEY)")
	}
	pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, rhumb.Errorf(rhumb.KindInvalid, "client certificate %s with key %s: %w; RHUMB_CERT and RHUMB_KEY name the two files of one client, as 'rhumb certs issue NAME --client' makes them", c.Cert, c.Key, err)
	}
	out.Certificates = []tls.Certificate{pair}
	return out, nil
}

// URL is where the client calls.
func (c *Client) URL() string { return c.base.String() }

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// send makes a request and gives its answer if the status is good.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	u := *c.base
	u.Path += path
	u.RawQuery = query.Encode()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("admin client: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, fmt.Errorf("admin client: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, method, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	c.noteWithin(resp.Header.Get(api.HeaderWithin))
	return resp, nil
}

// unreachable says why there is no answer, and what to look at.
func (c *Client) unreachable(ctx context.Context, method string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which is said already
	}
	perhaps := ""
	if method != http.MethodGet {
		perhaps = "; what was asked for may or may not have happened: look before trying again"
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return rhumb.Errorf(rhumb.KindUnavailable, "%w before the admin API at %s had answered%s", errInterrupted, c.base, perhaps)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return rhumb.Errorf(rhumb.KindTimeout, "%w: the admin API at %s has not answered; the region hangs, which its log may explain, or needs longer%s", errTimeout, c.base, perhaps)
	}
	hint := "is the region running, and is this its address?"
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		hint = "RHUMB_CACERT names the file of the CA that signed the server's certificate, such as certs/ca.crt"
	case errors.As(err, &host):
		hint = "ask under a name that is in the certificate, or issue it again with 'rhumb certs issue NAME --host'"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		hint = "the region needs another certificate, 'rhumb certs issue NAME --force', which it takes while it runs, or the clock here is wrong"
	case strings.Contains(err.Error(), "remote error: tls:"):
		hint = "it takes no such connection: see RHUMB_CERT and RHUMB_CACERT with 'rhumb certs show'"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		hint = "it speaks no TLS: ask http://"
	case perhaps != "" && !isDial(err): // it was reached, and went away
		return rhumb.Errorf(rhumb.KindUnavailable, "the connection to the admin API at %s broke before it had answered: %w%s", c.base, err, perhaps)
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "cannot reach the admin API at %s: %w; %s", c.base, err, hint)
}

// isDial reports whether a call failed before anything of it was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// What ended a call before there was an answer: the caller gave up, as after
// Ctrl-C, or its time was over.
var (
	errInterrupted = gaveUp{"interrupted", context.Canceled}
	errTimeout     = gaveUp{"the time is over", context.DeadlineExceeded}
)

// gaveUp is an end of a context in other words than its own.
type gaveUp struct {
	text string
	err  error
}

func (g gaveUp) Error() string { return g.text }
func (g gaveUp) Unwrap() error { return g.err }

// kinds finds a kind by its word.
var kinds = func() map[string]rhumb.Kind {
	m := map[string]rhumb.Kind{}
	for k := rhumb.KindInternal; k <= rhumb.KindUnknownProducer; k++ {
		m[k.String()] = k
	}
	return m
}()

// FieldError is a refusal of fields of a document.
type FieldError struct {
	Field   string             // the path of the first, such as topology.full-mesh[1]
	Message string             // all that the server says, the field too
	All     []api.FieldRefusal // each of them, where there are several
}

// Error gives what the server says.
func (e *FieldError) Error() string { return e.Message }

func asError(e api.Error) error {
	if e.Field != "" {
		return &rhumb.Error{Kind: kinds[e.Kind], Err: &FieldError{Field: e.Field, Message: e.Message, All: e.Fields}}
	}
	return rhumb.Errorf(kinds[e.Kind], "%s", e.Message)
}

func (c *Client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is used
	var body api.ErrorBody
	if err := json.Unmarshal(text, &body); err != nil || body.Error.Message == "" {
		if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
			return rhumb.Errorf(rhumb.KindUnavailable, "%s speaks TLS: ask https://%s", c.base, c.base.Host)
		}
		return rhumb.Errorf(rhumb.KindUnavailable, "%s answers %q, which is not Rhumb's admin API: check the address", c.base, resp.Status)
	}
	return asError(body.Error)
}

func (c *Client) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	resp, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(answer); err != nil {
		if ctx.Err() != nil {
			return c.unreachable(ctx, method, err)
		}
		return rhumb.Errorf(rhumb.KindUnavailable, "%s%s: answer cut off or not JSON: %w", c.base, path, err)
	}
	return nil
}

func topicPath(t rhumb.Topic) string {
	return api.Prefix + "/topics/" + string(t.Tenant) + "/" + string(t.Namespace) + "/" + string(t.Name)
}

func partitionPath(t rhumb.Topic, partition int32) string {
	return topicPath(t) + "/partitions/" + strconv.Itoa(int(partition))
}

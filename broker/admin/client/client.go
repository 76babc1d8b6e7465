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
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
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
	// Transport carries the requests instead of the network, for tests of whole
	// meshes in one process. Nil: HTTP.
	Transport http.RoundTripper
}

// Client calls one region's API. Its methods may run at the same time.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
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
	if cfg.CACert != "" {
		pem, err := os.ReadFile(cfg.CACert)
		if err != nil {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "CA certificates: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, rhumb.Errorf(rhumb.KindInvalid, "CA certificates: no certificate in %s", cfg.CACert)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Client{base: base, token: cfg.Token, http: &http.Client{Transport: transport}}, nil
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
		return nil, c.unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, c.refused(resp)
	}
	return resp, nil
}

func (c *Client) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which is said already
	}
	return rhumb.Errorf(rhumb.KindUnavailable, "cannot reach the admin API at %s: %w; is the region running, and is this its address?",
		c.base, err)
}

// kinds finds a kind by its word.
var kinds = func() map[string]rhumb.Kind {
	m := map[string]rhumb.Kind{}
	for k := rhumb.KindInternal; k <= rhumb.KindUnknownProducer; k++ {
		m[k.String()] = k
	}
	return m
}()

// FieldError is a refusal of one field of a document.
type FieldError struct {
	Field   string // its path, such as topology.full-mesh[1]
	Message string // all that the server says, the field too
}

// Error gives what the server says.
func (e *FieldError) Error() string { return e.Message }

func asError(e api.Error) error {
	if e.Field != "" {
		return &rhumb.Error{Kind: kinds[e.Kind], Err: &FieldError{Field: e.Field, Message: e.Message}}
	}
	return rhumb.Errorf(kinds[e.Kind], "%s", e.Message)
}

func (c *Client) refused(resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what came is used
	var body api.ErrorBody
	if err := json.Unmarshal(text, &body); err != nil || body.Error.Message == "" {
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

package consul

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/rhumbmq/rhumb/internal/certs"
	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Config says which Consul, and as whom. What is empty comes from the environment
// of Consul's own tools, named with each field, then from Consul's defaults.
type Config struct {
	// Address is host:port, http://…, https://… or unix:///path
	// (CONSUL_HTTP_ADDR; 127.0.0.1:8500). With TLS files, or CONSUL_HTTP_SSL, host:port
	// means https.
	Address string
	// TokenFile holds the ACL token. It is read again when it changes
	// (CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN).
	TokenFile string
	// TLS names certificate files. They are read again when they change.
	TLS TLS
	// Datacenter whose key-value store is used; empty: the agent's. Consul does not
	// replicate keys between datacenters: all regions of a mesh name the same one.
	Datacenter string
	// Namespace and Partition are of Consul Enterprise (CONSUL_NAMESPACE,
	// CONSUL_PARTITION).
	Namespace, Partition string
	// Prefix is put before rhumb/v1/…, so that several meshes share a Consul. A
	// slash at its end is added if it lacks one.
	Prefix string
	// WaitTime bounds one blocking query of a watch. Zero: 1 minute.
	WaitTime time.Duration
}

// TLS names the files of an HTTPS connection to Consul.
type TLS struct {
	CA         string // trusted CAs (CONSUL_CACERT); empty: the system's
	Cert, Key  string // own certificate, if Consul asks for one (CONSUL_CLIENT_CERT, CONSUL_CLIENT_KEY)
	ServerName string // name in Consul's certificate; empty: the address (CONSUL_TLS_SERVER_NAME)
}

// maxPrefixBytes bounds a prefix: with it a key stays far below what Consul takes.
const maxPrefixBytes = 256

// CheckPrefix reports whether documents may lie behind a prefix.
func CheckPrefix(prefix string) error {
	if len(prefix) > maxPrefixBytes {
		return rhumb.Errorf(rhumb.KindInvalid, "has %d bytes, at most %d are allowed", len(prefix), maxPrefixBytes)
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(prefix, "/"), "/") {
		if prefix != "" && (part == "" || part == "." || part == ".." || strings.ContainsFunc(part, illegal)) {
			return rhumb.Errorf(rhumb.KindInvalid, "must be names of [A-Za-z0-9._-] with / between them, not %q", prefix)
		}
	}
	return nil
}

func illegal(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// CheckAddress reports whether Consul can be looked for at an address.
func CheckAddress(addr string) error {
	scheme, rest, ok := strings.Cut(addr, "://")
	if !ok {
		scheme, rest = "http", addr
	}
	switch scheme {
	case "unix":
		if strings.HasPrefix(rest, "/") {
			return nil
		}
	case "http", "https":
		host, _, _ := strings.Cut(rest, "/")
		if _, port, err := net.SplitHostPort(host); err == nil && port != "" {
			return nil
		}
	}
	return rhumb.Errorf(rhumb.KindInvalid, "%q must be host:port, http://host:port, https://host:port or unix:///path", addr)
}

// maxConnections bounds what one handle has open to Consul, which refuses an address with
// more than 200 (http_max_conns_per_client). Calls beyond wait for another's end.
const maxConnections = 48

// effective is a Config with what the environment adds.
type effective struct {
	client  *api.Config // with HTTPClient, without a token
	door    *door
	address string // for messages
}

// resolve puts the environment under the configuration and builds the HTTP client.
func (c Config) resolve() (effective, error) {
	env := api.DefaultConfig()
	a := &api.Config{
		Address: cmp.Or(c.Address, env.Address), Scheme: env.Scheme, HttpAuth: env.HttpAuth, Datacenter: c.Datacenter,
		Namespace: cmp.Or(c.Namespace, env.Namespace), Partition: cmp.Or(c.Partition, env.Partition),
	}
	if err := CheckAddress(a.Address); err != nil {
		return effective{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: consul: address %w", err)
	}
	if c.TLS != (TLS{}) {
		a.Scheme = "https"
	}
	tlsConfig, err := c.tls(a.Address, env.TLSConfig)
	if err != nil {
		return effective{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: consul: tls: %w", err)
	}
	transport := env.Transport
	transport.TLSClientConfig = tlsConfig
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	if path, ok := strings.CutPrefix(a.Address, "unix://"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		a.Address, a.Scheme = "localhost", "http"
	}
	d := &door{transport: transport}
	switch {
	case c.TokenFile != "":
		a.TokenFile, d.token.path = c.TokenFile, c.TokenFile
	case env.TokenFile != "":
		d.token.path = env.TokenFile
	default:
		d.token.value = env.Token
	}
	if _, err := d.token.get(); err != nil {
		return effective{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: consul: %w", err)
	}
	a.Transport = transport
	a.HttpClient = &http.Client{Transport: d, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // Consul does not redirect; the token goes nowhere else
	}}
	return effective{client: a, door: d, address: cmp.Or(c.Address, env.Address)}, nil
}

// tls gives the TLS side of the client. Files that it names are read again when
// they change; a folder of CAs and an unchecked server, which only the environment
// can ask for, are taken as they are now.
func (c Config) tls(address string, env api.TLSConfig) (*tls.Config, error) {
	files := certs.Files{CA: cmp.Or(c.TLS.CA, env.CAFile), Cert: cmp.Or(c.TLS.Cert, env.CertFile), Key: cmp.Or(c.TLS.Key, env.KeyFile)}
	name := cmp.Or(c.TLS.ServerName, env.Address, hostOf(address))
	if c.TLS.CA == "" && (env.InsecureSkipVerify || env.CAPath != "") {
		env.CAFile, env.CertFile, env.KeyFile, env.Address = files.CA, files.Cert, files.Key, name
		return api.SetupTLSConfig(&env)
	}
	if files == (certs.Files{}) {
		return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}, nil
	}
	source, err := certs.Open(files)
	if err != nil {
		return nil, err
	}
	return certs.Client(source, name), nil
}

// hostOf gives the host of an address that [CheckAddress] took.
func hostOf(addr string) string {
	if _, rest, ok := strings.Cut(addr, "://"); ok {
		addr = rest
	}
	addr, _, _ = strings.Cut(addr, "/")
	host, _, _ := net.SplitHostPort(addr)
	return host
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

package consul

import (
	"net/url"
	"strings"

	"github.com/rhumbmq/rhumb/internal/rhumb"
)

// Scheme starts the text by which commands name a store in Consul.
const Scheme = "consul://"

// URL gives the text by which commands name the same store:
// consul://host:port/prefix?dc=…&token_file=…. The environment adds what it leaves
// open; files of TLS are left to it.
func (c Config) URL() string {
	address, _ := strings.CutPrefix(c.Address, "http://")
	address, secure := strings.CutPrefix(address, "https://")
	q := url.Values{}
	for key, value := range map[string]string{
		"dc": c.Datacenter, "ns": c.Namespace, "partition": c.Partition, "token_file": c.TokenFile,
		"ca": c.TLS.CA, "cert": c.TLS.Cert, "key": c.TLS.Key, "server_name": c.TLS.ServerName,
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if secure {
		q.Set("https", "true")
	}
	u := Scheme + address + "/" + c.Prefix
	if len(q) > 0 {
		u += "?" + q.Encode()
	}
	return strings.TrimSuffix(u, "/")
}

// ParseURL reads the form that [Config.URL] gives. consul:// alone leaves all to
// the environment.
func ParseURL(text string) (Config, error) {
	if text == strings.TrimSuffix(Scheme, "//") || text == strings.TrimSuffix(Scheme, "/") {
		text = Scheme
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme+"://" != Scheme || u.User != nil || u.Fragment != "" {
		return Config{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: %q must be %shost:port/prefix, or %[2]s alone for what the CONSUL_* environment says", text, Scheme)
	}
	c := Config{Address: u.Host, Prefix: strings.Trim(u.Path, "/")}
	for key, values := range u.Query() {
		into := map[string]*string{
			"dc": &c.Datacenter, "ns": &c.Namespace, "partition": &c.Partition, "token_file": &c.TokenFile,
			"ca": &c.TLS.CA, "cert": &c.TLS.Cert, "key": &c.TLS.Key, "server_name": &c.TLS.ServerName,
		}[key]
		switch {
		case len(values) == 1 && into != nil:
			*into = values[0]
		case key == "https" && len(values) == 1 && values[0] == "true" && c.Address != "":
			c.Address = "https://" + c.Address
		default:
			return Config{}, rhumb.Errorf(rhumb.KindInvalid, "configstore: %q: no such setting as %s: there are dc, ns, partition, token_file, https, ca, cert, key, server_name", text, key)
		}
	}
	return c, nil
}

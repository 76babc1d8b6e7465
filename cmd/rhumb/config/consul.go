package config

import (
	"strings"

	"github.com/rhumbmq/rhumb/configstore/consul"
)

// Backend gives what the Consul backend needs of the file.
func (c *ConsulStore) Backend() consul.Config {
	out := consul.Config{
		Address: c.Address, TokenFile: c.TokenFile, Datacenter: c.Datacenter,
		Namespace: c.Namespace, Partition: c.Partition, Prefix: c.Prefix,
	}
	if t := c.TLS; t != nil {
		out.TLS = consul.TLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
	}
	return out
}

// ConsulOf gives the part of a file that means the same as what the backend needs.
func ConsulOf(b consul.Config) *ConsulStore {
	c := &ConsulStore{
		Address: b.Address, TokenFile: b.TokenFile, Datacenter: b.Datacenter,
		Namespace: b.Namespace, Partition: b.Partition, Prefix: b.Prefix, Services: ServicesRegister,
	}
	if t := b.TLS; t != (consul.TLS{}) {
		c.TLS = &ConsulTLS{CA: t.CA, Cert: t.Cert, Key: t.Key, ServerName: t.ServerName}
	}
	return c
}

// checkStore checks which configuration store it is, and how it is reached.
func (c *Config) checkStore() error {
	s := c.ConfigStore.Consul
	const at = "config_store.consul"
	if s == nil {
		return nil
	}
	if c.ConfigStore.Embedded != nil {
		return refuse(at, "cannot be given together with config_store.embedded.path: a region has one configuration store")
	}
	if s.Address != "" {
		if err := consul.CheckAddress(s.Address); err != nil {
			return refuse(at+".address", "%v", err)
		}
	}
	if err := consul.CheckPrefix(s.Prefix); err != nil {
		return refuse(at+".prefix", "%v", err)
	}
	for _, name := range []struct{ key, value string }{{"datacenter", s.Datacenter}, {"namespace", s.Namespace}, {"partition", s.Partition}} {
		if len(name.value) > 128 || strings.ContainsFunc(name.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return refuse(at+"."+name.key, "must be at most 128 visible ASCII characters")
		}
	}
	if t := s.TLS; t != nil && (t.Cert == "") != (t.Key == "") {
		return refuse(at+".tls", "needs cert and key, or neither")
	}
	return oneOf(at+".services", s.Services, ServicesRegister, ServicesOff)
}

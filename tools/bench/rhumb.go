package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// rhumb is two regions as operators run them: a process and a directory each, a
// link between them, flushing before each answer.
type rhumb struct {
	options *options
	binary  string
	writes  string // log_writes; "": as a region has it of whose file says nothing
	third   bool   // there is a region "ap", too, with a namespace that only it and us have
}

// regions are the names of the regions.
func (s *rhumb) regions() []string {
	if s.third {
		return []string{"us", "eu", "ap"}
	}
	return []string{"us", "eu"}
}

func (s *rhumb) lanes() int { return s.options.parts }

func (s *rhumb) pending() int { return 0 }

func (s *rhumb) install(context.Context) (err error) {
	s.binary, err = filepath.Abs(s.options.rhumb)
	return err
}

func (s *rhumb) addr(cluster int) string {
	return fmt.Sprintf("%s:%d", s.options.net.host(cluster), 27092+100*cluster)
}

func (s *rhumb) start(ctx context.Context, p *processes) error {
	var err error
	if s.binary, err = filepath.Abs(s.options.rhumb); err != nil {
		return err
	}
	if err := p.run(ctx, 0, "", s.binary, "certs", "init", "--config-store", "store"); err != nil {
		return err
	}
	if err := p.run(ctx, 0, "", s.binary, append([]string{"certs", "issue", "--config-store", "store"}, s.regions()...)...); err != nil {
		return err
	}
	writes := ""
	if s.writes != "" {
		writes = "log_writes: " + s.writes + "\n"
	}
	for i, name := range s.regions() {
		if err := p.write(name+".yaml", fmt.Sprintf(`region: {name: %s}
data_dir: data-%s
%sconfig_store: {embedded: {path: store}}
listeners:
  - {protocol: kafka, bind: "%s"}
  - {protocol: admin, bind: "127.0.0.1:%d"}
  - protocol: geo
    bind: "%s:%d"
    tls: {ca: certs/ca.crt, cert: certs/region-%s.crt, key: certs/region-%s.key}
`, name, name, writes, s.addr(i), 27080+100*i, s.options.net.host(i), 27650+100*i, name, name)); err != nil {
			return err
		}
		if err := p.start(i, name, s.binary, "server", "--config", name+".yaml"); err != nil {
			return err
		}
	}
	// The admin API stays on the loopback interface, which each region may have its own of.
	at := func(region int, input string, args ...string) error {
		return p.run(ctx, region, input, s.binary, append(args, "--addr", fmt.Sprintf("http://127.0.0.1:%d", 27080+100*region))...)
	}
	for i, name := range s.regions() {
		if err := until(ctx, time.Minute, func(context.Context) error { return at(i, "", "link", "list", "--region", name) }); err != nil {
			return err
		}
	}
	admin := func(input string, args ...string) error { return at(0, input, args...) }
	if err := admin("", "tenant", "create", "public"); err != nil {
		return err
	}
	if err := admin("topology: {full-mesh: [us, eu]}", "namespace", "create", "public/copied", "-f", "-"); err != nil {
		return err
	}
	if s.third {
		if err := admin("topology: {full-mesh: [us, ap]}", "namespace", "create", "public/third", "-f", "-"); err != nil {
			return err
		}
	}
	return admin("topology: {full-mesh: [us]}", "namespace", "create", "public/local", "-f", "-")
}

func (s *rhumb) client(cluster int) (client, error) {
	return dialKafka(s.addr(cluster), s.options.linger)
}

func (s *rhumb) topic(ctx context.Context, name string, copied bool) (here, there string, err error) {
	namespace := "local"
	if copied {
		namespace = "copied"
	}
	name, err = s.topicIn(ctx, namespace, name)
	return name, name, err
}

// topicIn makes a topic in a namespace.
func (s *rhumb) topicIn(ctx context.Context, namespace, name string) (string, error) {
	name = "persistent://public/" + namespace + "/" + name
	c, err := dialKafka(s.addr(0), s.options.linger)
	if err != nil {
		return "", err
	}
	defer c.close()
	return name, until(ctx, 20*time.Second, func(ctx context.Context) error { return c.makeTopic(ctx, name, s.lanes()) })
}

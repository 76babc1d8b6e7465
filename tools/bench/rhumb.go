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
	direct  bool // log_writes: direct
}

func (s *rhumb) lanes() int { return s.options.parts }

func (s *rhumb) pending() int { return 0 }

func (s *rhumb) install(context.Context) (err error) {
	s.binary, err = filepath.Abs(s.options.rhumb)
	return err
}

func (s *rhumb) addr(cluster int) string { return fmt.Sprintf("127.0.0.1:%d", 27092+100*cluster) }

func (s *rhumb) start(ctx context.Context, p *processes) error {
	var err error
	if s.binary, err = filepath.Abs(s.options.rhumb); err != nil {
		return err
	}
	if err := p.run(ctx, "", s.binary, "certs", "init", "--config-store", "store"); err != nil {
		return err
	}
	if err := p.run(ctx, "", s.binary, "certs", "issue", "us", "eu", "--config-store", "store"); err != nil {
		return err
	}
	writes := "cached"
	if s.direct {
		writes = "direct"
	}
	for i, name := range []string{"us", "eu"} {
		if err := p.write(name+".yaml", fmt.Sprintf(`region: {name: %s}
data_dir: data-%s
log_writes: %s
config_store: {embedded: {path: store}}
listeners:
  - {protocol: kafka, bind: "%s"}
  - {protocol: admin, bind: "127.0.0.1:%d"}
  - protocol: geo
    bind: "127.0.0.1:%d"
    tls: {ca: certs/ca.crt, cert: certs/region-%s.crt, key: certs/region-%s.key}
`, name, name, writes, s.addr(i), 27080+100*i, 27650+100*i, name, name)); err != nil {
			return err
		}
		if err := p.start(name, s.binary, "server", "--config", name+".yaml"); err != nil {
			return err
		}
	}
	admin := func(input string, args ...string) error {
		return p.run(ctx, input, s.binary, append(args, "--addr", "http://127.0.0.1:27080")...)
	}
	for _, name := range []string{"us", "eu"} {
		if err := until(ctx, time.Minute, func(context.Context) error { return admin("", "link", "list", "--region", name) }); err != nil {
			return err
		}
	}
	if err := admin("", "tenant", "create", "public"); err != nil {
		return err
	}
	if err := admin("topology: {full-mesh: [us, eu]}", "namespace", "create", "public/copied", "-f", "-"); err != nil {
		return err
	}
	return admin("topology: {full-mesh: [us]}", "namespace", "create", "public/local", "-f", "-")
}

func (s *rhumb) client(cluster int) (client, error) { return dialKafka(s.addr(cluster)) }

func (s *rhumb) topic(ctx context.Context, name string, copied bool) (here, there string, err error) {
	name = "persistent://public/local/" + name
	if copied {
		name = "persistent://public/copied/" + filepath.Base(name)
	}
	c, err := dialKafka(s.addr(0))
	if err != nil {
		return "", "", err
	}
	defer c.close()
	return name, name, until(ctx, 20*time.Second, func(ctx context.Context) error { return c.makeTopic(ctx, name, s.lanes()) })
}

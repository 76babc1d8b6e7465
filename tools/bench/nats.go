package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// natsVersion is built from source: the Go module proxy has it.
const natsVersion = "v2.15.3"

// jetstream is two NATS servers, of which the second mirrors streams of the
// first over a leaf node connection.
type jetStream struct {
	options *options
	fsync   bool // sync_interval: always, in place of two minutes
	clients [2]*natsClient
}

func (s *jetStream) lanes() int { return 1 }

// pending is the limit of the client's PublishAsync: a mirror falls behind for good if
// its origin is flooded.
func (s *jetStream) pending() int { return 4000 }

func (s *jetStream) binary() string {
	return filepath.Join(s.options.cache, "nats-"+natsVersion, "nats-server")
}

func (s *jetStream) install(ctx context.Context) error {
	if _, err := os.Stat(s.binary()); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "install", "github.com/nats-io/nats-server/v2@"+natsVersion)
	cmd.Env = append(os.Environ(), "GOBIN="+filepath.Dir(s.binary()), "GOFLAGS=")
	cmd.Dir, cmd.Stderr = os.TempDir(), os.Stderr
	return cmd.Run()
}

func (s *jetStream) url(cluster int) string {
	return "nats://" + s.addr(cluster)
}

func (s *jetStream) addr(cluster int) string {
	return fmt.Sprintf("%s:%d", s.options.net.host(cluster), 27222+100*cluster)
}

func (s *jetStream) start(ctx context.Context, p *processes) error {
	sync := "2m"
	if s.fsync {
		sync = "always"
	}
	leaf := s.options.net.host(0) + ":27422"
	for i, leaf := range []string{`listen: "` + leaf + `"`, `remotes: [{url: "nats-leaf://` + leaf + `"}]`} {
		name := string(rune('a' + i))
		conf := fmt.Sprintf(`server_name: %s
listen: "%s"
jetstream { domain: %s, store_dir: "%s", sync_interval: %s }
leafnodes { %s }
`, name, s.addr(i), name, filepath.Join(p.dir, "data-"+name), sync, leaf)
		if err := p.write(name+".conf", conf); err != nil {
			return err
		}
		if err := p.start(i, name, s.binary(), "-c", name+".conf"); err != nil {
			return err
		}
	}
	for i := range s.clients {
		if err := until(ctx, time.Minute, func(ctx context.Context) error {
			c, err := dialNATS(s.url(i))
			if err != nil {
				return err
			}
			defer c.close()
			_, err = c.js.AccountInfo(ctx)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *jetStream) client(cluster int) (client, error) { return dialNATS(s.url(cluster)) }

func (s *jetStream) topic(ctx context.Context, name string, copied bool) (here, there string, err error) {
	a, err := dialNATS(s.url(0))
	if err != nil {
		return "", "", err
	}
	defer a.close()
	if _, err = a.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Storage: jetstream.FileStorage}); err != nil || !copied {
		return name, name, err
	}
	b, err := dialNATS(s.url(1))
	if err != nil {
		return "", "", err
	}
	defer b.close()
	// The leaf node must be joined before a mirror can ask for its origin.
	err = until(ctx, time.Minute, func(ctx context.Context) error {
		_, err := b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: name, Storage: jetstream.FileStorage,
			Mirror: &jetstream.StreamSource{Name: name, Domain: "a"}})
		return err
	})
	return name, name, err
}
